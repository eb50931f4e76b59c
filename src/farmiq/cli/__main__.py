import sys

from farmiq.cli import exits


def main() -> None:
    """Entry point of `farmiq` and of `python -m farmiq.cli`."""
    from farmiq.cli.app import app

    try:
        code = app(standalone_mode=False)
    except Exception as error:
        _leave(error)
        raise
    sys.exit(code if isinstance(code, int) else 0)


def _leave(error: Exception) -> None:
    """Ends the process for an error that says what to do. Returns for any other, whose traceback is what helps."""
    from farmiq.cli.explain import explain, render
    from farmiq.cli.terminal import has_color, own_name

    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]  # a class of the library's own, which holds the help text
        sys.exit(exits.USAGE)
    explanation = explain(error)
    if explanation is None:
        return
    sys.stdout.flush()
    sys.stderr.write(render(explanation, program=own_name(), color=has_color(sys.stderr)))
    sys.exit(explanation.exit_code)


if __name__ == "__main__":
    main()
