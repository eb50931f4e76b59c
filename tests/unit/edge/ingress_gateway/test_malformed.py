"""A thousand kinds of malformed message, and what no kind foresees: refused with the right reason, never with an accident."""

import random
from uuid import UUID

from farmiq.contracts.decoding import DETAIL_LENGTH_MAX
from farmiq.edge.ingress_gateway.screening import Refusal, Screened, screen
from support.malformed import KINDS, STATION_KINDS, good_message, malformed_messages, undeliverable_messages

NIL = UUID(int=0)
DECIDED_BY_THE_DATABASE = "not_provisioned"


def test_what_the_cases_are_made_of_is_good() -> None:
    for kind in (*KINDS, *STATION_KINDS):
        answer = screen(kind.topic, good_message(kind, NIL))
        assert isinstance(answer, Screened), (kind.event_type, answer)


def test_the_cases_are_more_than_a_thousand_and_each_its_own() -> None:
    cases = malformed_messages()
    assert len(cases) >= 1000
    assert len({case.kind for case in cases}) == len({(case.topic, case.payload) for case in cases}) == len(cases)
    assert cases == malformed_messages(), "the same in every run"


def test_each_kind_is_refused_with_its_reason() -> None:
    wrong = {}
    for case in [*malformed_messages(), *undeliverable_messages()]:
        answer = screen(case.topic, case.payload)
        code = answer.code if isinstance(answer, Refusal) else DECIDED_BY_THE_DATABASE
        if code != case.code:
            wrong[case.kind] = (code, case.code)
        if isinstance(answer, Refusal):
            assert len(answer.detail) <= DETAIL_LENGTH_MAX
    assert wrong == {}


def test_a_refused_message_keeps_who_sent_it_and_gets_a_trace() -> None:
    for case in malformed_messages():
        answer = screen(case.topic, case.payload)
        if isinstance(answer, Refusal):
            assert answer.trace_id
            assert (answer.tenant_id is None) == (answer.device_id is None) == (case.code == "bad_topic"), case.kind


def test_random_damage_is_refused_or_harmless_and_never_an_accident() -> None:
    rng = random.Random(7)
    seen = set()
    for _ in range(5000):
        kind = rng.choice((*KINDS, *STATION_KINDS))
        data = bytearray(good_message(kind, NIL))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.randrange(1, 30)]
                case _:
                    data[at:at] = data[: rng.randrange(1, 30)]
            if not data:
                break
        answer = screen(kind.topic, bytes(data))
        seen.add(answer.code if isinstance(answer, Refusal) else "good")
    assert {"good", "not_json", "not_utf8", "schema", "topic_mismatch"} <= seen
