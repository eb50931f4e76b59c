from farmiq.console.addresses import address, linker


def test_what_is_not_given_is_left_out_and_lists_are_repeated() -> None:
    asked = {"device": ["a", "b"], "metric": "t", "since": None, "sensor": "", "beside": []}
    assert address("/telemetry", asked) == "/telemetry?device=a&device=b&metric=t"
    assert address("/telemetry", {"since": None}) == "/telemetry"


def test_a_link_changes_some_parameters_and_keeps_the_others() -> None:
    link = linker("/telemetry", {"metric": "t", "range": "1h"})
    assert link(range="7d") == "/telemetry?metric=t&range=7d"
    assert link(to="/telemetry/data", range=None) == "/telemetry/data?metric=t"


def test_what_stands_in_an_address_can_not_break_out_of_it() -> None:
    assert address("/x", {"q": '"><script>&a=1#'}) == "/x?q=%22%3E%3Cscript%3E%26a%3D1%23"
