import csv
import io
from datetime import UTC, datetime

from farmiq.console.csv_export import csv_response


def test_a_table_can_be_read_back() -> None:
    rows = [("a,b", 1, None, datetime(2026, 1, 1, tzinfo=UTC)), ('say "hi"\nthere', -2.5, True, None)]
    response = csv_response("things", ["name", "n", "x", "at"], rows)
    assert list(csv.reader(io.StringIO(response.content.decode()))) == [
        ["name", "n", "x", "at"],
        ["a,b", "1", "", "2026-01-01T00:00:00+00:00"],
        ['say "hi"\nthere', "-2.5", "True", ""],
    ]


def test_text_from_a_device_is_never_a_formula() -> None:
    hostile = ['=HYPERLINK("http://evil","x")', "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1"]
    content = csv_response("x", ["text"], [(text,) for text in hostile]).content.decode()
    cells = [row[0] for row in csv.reader(io.StringIO(content, newline=""))][1:]
    assert [cell[0] for cell in cells] == ["'"] * len(hostile)


def test_a_file_with_everything_in_it_says_nothing_and_a_cut_one_does() -> None:
    whole = csv_response("x", ["a"], [[1], [2]], rows_max=2)
    assert whole.content.decode().splitlines() == ["a", "1", "2"]
    assert 'filename="x.csv"' in whole.headers["content-disposition"]
    cut = csv_response("x", ["a"], [[1], [2], [3]], rows_max=2)
    assert cut.content.decode().splitlines() == ["a", "1", "2", "(only 2 are in this file: there are more)"]
    assert 'filename="x-first-2.csv"' in cut.headers["content-disposition"]
    told = csv_response("x", ["a"], [[1]], has_more=True)
    assert 'filename="x-first-1.csv"' in told.headers["content-disposition"]
