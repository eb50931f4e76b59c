from farmiq.cli import exits
from farmiq.cli.errors import NotRunning
from farmiq.cli.explain import explain, render
from farmiq.kit import lifecycle
from farmiq.kit.errors import Fatal
from farmiq.kit.settings import BadSettings


class DiskFull(Fatal):
    """The disk has no room
    for a segment."""


def test_an_error_of_a_command_says_what_why_and_what_to_do() -> None:
    explanation = explain(NotRunning("nothing runs in .farmiq", why="It was stopped.", fix="farmiq up"))
    assert explanation is not None
    assert render(explanation) == "error: nothing runs in .farmiq\n  why: It was stopped.\n  fix: farmiq up\n"
    assert explanation.exit_code == exits.NOT_RUNNING


def test_an_error_from_below_is_explained_by_its_class_and_its_cause() -> None:
    error = DiskFull("segment 7 was not written")
    error.__cause__ = OSError(28, "No space left on device")
    explanation = explain(error)
    assert explanation is not None
    assert explanation.what == "segment 7 was not written"
    assert explanation.why == "The disk has no room for a segment. (OSError: [Errno 28] No space left on device)"
    assert explanation.fix == "farmiq doctor"
    assert explanation.exit_code == exits.FAILED


def test_a_wrong_setting_has_the_exit_code_of_a_service_with_wrong_settings() -> None:
    explanation = explain(BadSettings("PORT is 'x', which is not allowed"))
    assert explanation is not None
    assert explanation.exit_code == exits.BAD_SETTINGS == lifecycle.EXIT_BAD_SETTINGS


def test_an_error_that_nobody_named_is_left_alone() -> None:
    assert explain(KeyError("x")) is None


def test_lines_of_one_text_stay_together() -> None:
    explanation = explain(NotRunning("a", why="b\nc", fix=""))
    assert explanation is not None
    assert render(explanation) == "error: a\n  why: b\n       c\n"


def test_color_marks_the_word_and_not_the_text() -> None:
    explanation = explain(NotRunning("a", why="b", fix="c"))
    assert explanation is not None
    assert "\x1b[1;31merror:\x1b[0m a\n" in render(explanation, color=True)


def test_commands_can_be_typed_as_they_are_printed() -> None:
    explanation = explain(
        NotRunning("a", why="b", fix="farmiq down, then DATABASE_URL=x farmiq up; see farmiq.example")
    )
    assert explanation is not None
    fix = render(explanation, program=".venv/bin/farmiq").splitlines()[-1]
    assert fix == "  fix: .venv/bin/farmiq down, then DATABASE_URL=x .venv/bin/farmiq up; see farmiq.example"
