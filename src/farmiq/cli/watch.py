from typing import Annotated

import typer


def watch(
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, metavar="SECONDS", help="Stop by itself. Default: when interrupted.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a second, each on a line.")] = False,
) -> None:
    """Watch the farm at work: device, edge, cloud, once a second.

    Each hop with its rate, what waits there, how old the oldest is and where it is safe; what is cut; losses, dead letters and
    duplicates that were removed since the watching began.
    """
    from farmiq.cli.flow_show import Watcher, asker_for, shown, whole_line
    from farmiq.cli.running import running_home

    watcher = Watcher(asker_for(running_home()))
    with shown("farmiq watch", whole_line, as_json=as_json) as show:
        try:
            for view in watcher.looks(seconds):
                show(view)
        except KeyboardInterrupt:
            return
