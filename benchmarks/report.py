"""Makes the measured part of docs/benchmarks.md and its pictures anew from benchmarks/results. `make bench` ends with it."""

from page.writing import PAGE, PICTURES, ROOT, write

if __name__ == "__main__":
    write()
    print(f"Made {PAGE.relative_to(ROOT)} and {PICTURES.relative_to(ROOT)} from benchmarks/results.")
