"""The measured part of docs/benchmarks.md: one table of ratios, one for each peer, plots; nothing that is not in the results.

`make bench` puts the JSON of each benchmark into benchmarks/results and has the page made anew from it: `measured.py` reads the
files, `aims.py` says what was aimed at, `tables.py` and `plots.py` show it, `writing.py` puts it between the marks of the page.
The same files always give the same page, and a test compares.
"""
