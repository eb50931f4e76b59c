"""Seeds that once failed, each with what it found. They are run by every `make test`, for ever.

A seed means the same as long as the simulation draws the same numbers in the same order: when it changes, a seed here is only
a seed. So what it found has a test of its own beside the code, which is named here.
"""

FOUND: dict[int, str] = {}
