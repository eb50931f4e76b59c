"""Measurements as lines: which tier is asked, how finely, and what is shaded beside them.

`answers` (what the services say), `choosing` (tier and window, pure), `asking` (the requests), `drawing` (lines, bands and rows,
pure). The page is `pages/telemetry.py`.
"""
