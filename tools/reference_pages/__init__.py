"""The parts of docs/reference/ that are made from the code, one module a page. `tools/reference.py` writes them."""
