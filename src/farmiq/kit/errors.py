"""What can go wrong, in the three kinds that matter on the wire."""


class FarmiqError(Exception):
    """Something FarmIQ knows how to name. `code` is stable: logs, metrics, HTTP answers and rejected rows use it."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class Transient(FarmiqError):
    """A neighbour is away or busy. Nothing is lost: the same work is tried again later."""

    code = "transient"


class Rejected(FarmiqError):
    """This message will never be good. It is kept with the reason, and the next one is taken."""

    code = "rejected"


class Fatal(FarmiqError):
    """The service cannot go on by itself. It stops, and the message says what a person has to do."""

    code = "fatal"
