from pathlib import Path

from farmiq.cli import log_lines
from farmiq.cli.log_lines import Line, Tail, in_order_of_time, readable


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


def test_the_last_lines_and_then_only_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\nthree\n")
    tail = Tail("a", path)
    assert texts(tail.last(2)) == ["two", "three"]
    assert tail.new() == []
    with path.open("a") as file:
        file.write("four\nfi")
        file.flush()
        assert texts(tail.new()) == ["four"]
        file.write("ve\n")
    assert texts(tail.new()) == ["five"]
    tail.close()


def test_a_block_from_the_middle_starts_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x" * log_lines.TAIL_BYTES_MAX + "\nwhole\n")
    tail = Tail("a", path)
    assert texts(tail.last(5)) == ["whole"]
    tail.close()


def test_zero_lines_are_none_and_following_starts_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("old\n")
    tail = Tail("a", path)
    assert tail.last(0) == []
    assert tail.new() == []
    tail.close()


def test_a_file_that_is_moved_away_loses_no_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\n")
    tail = Tail("a", path)
    assert texts(tail.last(9)) == ["one"]
    with path.open("a") as file:
        file.write("two\n")
    path.rename(tmp_path / "a.log.1")
    assert texts(tail.new()) == ["two"]
    path.write_text("three\n")
    assert texts(tail.new()) == ["three"]
    tail.close()


def test_a_file_that_is_cut_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    tail = Tail("a", path)
    assert texts(tail.last(9)) == ["one", "two"]
    path.write_text("new\n")
    assert texts(tail.new()) == ["new"]
    tail.close()


def test_a_file_that_comes_later_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    tail = Tail("a", path)
    assert tail.last(9) == []
    assert tail.new() == []
    path.write_text("first\n")
    assert texts(tail.new()) == ["first"]
    tail.close()


def test_lines_of_several_files_are_merged_by_time_and_tracebacks_stay_together() -> None:
    services = [
        Line("a", '{"timestamp":"2026-01-01T10:00:00.5Z","message":"batch_sent"}'),
        Line("a", "Traceback"),
        Line("a", '{"timestamp":"2026-01-01T10:00:02Z","message":"batch_acked"}'),
    ]
    server = [Line("b", "2026-01-01 10:00:01.000 UTC [7] LOG:  ready"), Line("b", "hint")]
    merged = in_order_of_time([services, server])
    assert [(line.source, line.text[:9]) for line in merged] == [
        ("a", '{"timesta'),
        ("a", "Traceback"),
        ("b", "2026-01-0"),
        ("b", "hint"),
        ("a", '{"timesta'),
    ]


def test_a_json_line_becomes_readable_and_another_stays_as_it_is() -> None:
    line = '{"timestamp":"2026-01-01T10:00:00.123456Z","level":"info","message":"batch_sent","count":3,"reason":"a b"}'
    assert readable(Line("edge-sync-forwarder", line)).split() == [
        "edge-sync-forwarder", "10:00:00.123", "INFO", "batch_sent", "count=3", 'reason="a', 'b"',
    ]  # fmt: skip
    assert readable(Line("postgres", "[1, 2] ready")).split() == ["postgres", "[1,", "2]", "ready"]


def test_the_traceback_of_a_json_line_follows_on_lines_of_its_own() -> None:
    text = readable(Line("a", '{"message":"service_failed","exception":"Traceback\\n  line"}'))
    assert text.endswith("service_failed\nTraceback\n  line")
