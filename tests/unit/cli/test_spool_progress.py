from farmiq.cli.spool_progress import LINE_SECONDS, Lines


def test_short_work_is_silent_and_long_work_says_now_and_then_how_far_it_is() -> None:
    now, said = 0.0, list[str]()
    told = Lines("verified", said.append, lambda: now)
    told(0, 1000)
    now += LINE_SECONDS - 0.1
    told(300, 1000)
    assert said == []
    now += 0.2
    told(420, 1000)
    told(430, 1000)
    now += LINE_SECONDS
    told(990, 1000)
    assert said == ["verified: 42 %\n", "verified: 99 %\n"]


def test_an_empty_spool_has_no_share_to_divide() -> None:
    now, said = 0.0, list[str]()
    told = Lines("verified", said.append, lambda: now)
    now += LINE_SECONDS
    told(0, 0)
    assert said == ["verified: 0 %\n"]
