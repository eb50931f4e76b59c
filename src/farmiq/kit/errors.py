"""What can go wrong, in the three kinds that matter on the wire."""

import os


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


class EventIdReused(Rejected):
    """This event id stands for something else that its tenant has. Stored is what came first; the other one is refused."""

    code = "event_id_reused"


class Fatal(FarmiqError):
    """The service cannot go on by itself. It stops, and the message says what a person has to do."""

    code = "fatal"


def reason_of(error: BaseException) -> str:
    """Why a connection failed, for whoever reads an answer: without names of classes and without Python's form of an address."""
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or "the connection ended"
