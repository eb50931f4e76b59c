import pytest

from farmiq.kit.ids import new_id
from farmiq.outbox.event import Lease
from farmiq.outbox.suspects import travellers
from farmiq.outbox.verdicts import Failure, RetryPolicy, abandoned
from unit.outbox.test_floors import event

POLICY = RetryPolicy(attempts_max=3)


@pytest.mark.parametrize(
    ("suspects", "sent"),
    [("", 0), (".", 1), ("...", 3), ("s", 1), ("ss", 1), ("s..", 1), ("..s.", 2), (".ss", 1)],
)
def test_a_suspect_travels_alone_and_the_others_in_front_of_it_together(suspects: str, sent: int) -> None:
    events = [event(place, is_suspect=mark == "s") for place, mark in enumerate(suspects)]
    assert travellers(events) == events[:sent]


def test_only_who_was_alone_pays_for_a_forwarder_that_ended() -> None:
    lease = Lease(id=new_id(), claim_token=1, attempt_count=1, tenant_id="demo")
    among_others = abandoned(lease, POLICY, 0.5, was_alone=False)
    assert (among_others.status, among_others.attempt_count, among_others.delay_seconds) == ("pending", 1, 0.0)
    alone = abandoned(lease, POLICY, 0.5, was_alone=True)
    assert (alone.status, alone.attempt_count) == ("pending", 2)
    assert alone.delay_seconds > 0
    last = Lease(id=lease.id, claim_token=2, attempt_count=2, tenant_id="demo")
    assert abandoned(last, POLICY, 0.5, was_alone=True).status == "dlq"
    assert abandoned(last, POLICY, 0.5, was_alone=False).status == "pending"


def test_what_an_answer_says_can_always_be_written_down() -> None:
    """A proxy's page in UTF-16 has a NUL in every other byte, and half a character is no text."""
    failure = Failure("HTTP_502\0", "<\0h\0t\0m\0l\ud800")
    assert (failure.code, failure.message) == ("HTTP_502\\0", "<\\0h\\0t\\0m\\0l?")
