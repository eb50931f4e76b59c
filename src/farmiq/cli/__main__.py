import sys


def main() -> None:
    """Entry point of `farmiq` and of `python -m farmiq.cli`."""
    from farmiq.cli.app import app

    try:
        app()
    except Exception as error:
        _leave(error)
        raise


def _leave(error: Exception) -> None:
    """Ends the process for an error that says what to do. Returns for any other, whose traceback is what helps."""
    from farmiq.cli.explain import explain, render
    from farmiq.cli.terminal import has_color, own_name

    explanation = explain(error)
    if explanation is None:
        return
    sys.stdout.flush()
    sys.stderr.write(render(explanation, program=own_name(), color=has_color(sys.stderr)))
    sys.exit(explanation.exit_code)


if __name__ == "__main__":
    main()
