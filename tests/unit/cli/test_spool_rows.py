import io
import json
import math

import pytest

from farmiq.cli.spool_rows import Row, write_csv, write_jsonl, write_text
from farmiq.cli.spool_times import samples, size, wall_time


def row(value: float, metric: str = "temperature") -> Row:
    return Row(7, "2026-01-01T10:00:00.000000Z", metric, "t1", value, "C", 2, "boot", 9, "stream")


def test_a_value_keeps_all_its_digits() -> None:
    value = 0.1 + 0.2
    for write in (write_text, write_jsonl, write_csv):
        out = io.StringIO()
        write([row(value)], out)
        assert "0.30000000000000004" in out.getvalue()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_stays_json_for_what_is_not_a_number(value: float) -> None:
    out = io.StringIO()
    write_jsonl([row(value), row(1.5)], out)
    assert [json.loads(line)["value"] for line in out.getvalue().splitlines()] == [None, 1.5]


def test_csv_quotes_what_would_break_a_line() -> None:
    out = io.StringIO()
    write_csv([row(1.0, 'air, "inlet"')], out)
    header, line = out.getvalue().splitlines()
    assert header.split(",")[:3] == ["seq", "time", "metric"]
    assert line.startswith('7,2026-01-01T10:00:00.000000Z,"air, ""inlet""",t1,1.0,C,2,')


@pytest.mark.parametrize(
    ("wall_us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_735_725_600_000_001, "2025-01-01T10:00:00.000001Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (2**63 - 1, "9223372036854775807 us"),
        (-(2**63), "-9223372036854775808 us"),
    ],
)
def test_every_time_that_a_frame_can_carry_has_a_text(wall_us: int, text: str) -> None:
    assert wall_time(wall_us) == text


def test_amounts_are_readable() -> None:
    assert [samples(count) for count in (0, 1, 1234)] == ["0 samples", "1 sample", "1,234 samples"]
    assert [size(count) for count in (5, 2048, 3 << 20, 5 << 29)] == ["5 B", "2.0 KiB", "3.0 MiB", "2.5 GiB"]
