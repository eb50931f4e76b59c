"""FarmIQ: every accepted sample is stored once in the cloud or named in a loss record."""

__version__ = "0.1.0"
