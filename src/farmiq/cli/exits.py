"""Exit codes. They are part of the interface: scripts decide by them."""

OK = 0
FAILED = 1
USAGE = 2
NOT_RUNNING = 3
UNBALANCED = 4
BAD_SETTINGS = 78  # the same number that a service ends with: starting again will not help

TABLE = {
    OK: "done",
    FAILED: "failed",
    USAGE: "wrong arguments",
    NOT_RUNNING: "nothing runs here",
    UNBALANCED: "the audit does not balance",
    BAD_SETTINGS: "a setting is missing or not allowed",
}
