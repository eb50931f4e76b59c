import os
from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli import exits
from farmiq.cli.terminal import say, say_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from farmiq.stack.home import Home
    from farmiq.torture.campaign import Standing, Wishes
    from farmiq.torture.plan import Kind

FAULTS_A_MINUTE = 40
SEEDS = 1_000_000


def torture(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the faults go on.")] = 3.0,
    faults: Annotated[int | None, typer.Option(min=1, help=f"How many. Default: {FAULTS_A_MINUTE} a minute.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Repeats an earlier plan, with its --faults, --minutes and --nodes.")
    ] = None,
    rate: Annotated[float, typer.Option(min=1, help="Samples a second, of all nodes together.")] = 800.0,
    nodes: Annotated[int, typer.Option(min=1, max=20, help="Nodes with a real forwarder each.")] = 3,
    strangers: Annotated[
        bool,
        typer.Option(
            "--strangers/--no-strangers", help="Also attack with valid credentials of two devices and a second edge."
        ),
    ] = True,
    fresh_seconds: Annotated[
        float,
        typer.Option(min=1, help="Maximum seconds from the last fault to a fresh sample of every node in the cloud."),
    ] = 30.0,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="A kind of fault that comes only on request, e.g. rabbit-lost. Repeatable."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the farm's data, logs and ledger when it has passed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON, and no progress.")] = False,
) -> None:
    """Torture a farm of its own with faults, and see that nothing is lost.

    Starts a whole farm beside the one that may run here, feeds it, and kills, stops, cuts and poisons its parts. Then it heals
    everything, waits until the farm has come back by itself, and compares both tiers with a ledger that was written outside
    of the farm. Exit code 0: nothing lost, duplicated, altered or stuck; 1: something was, and the farm's folder is kept.
    """
    import asyncio
    import secrets

    from farmiq.cli.torture_report import as_data, as_text
    from farmiq.kit.logging import configure
    from farmiq.torture.campaign import Campaign, Wishes

    wanted = on_request(also or [])
    configure("CRITICAL")  # the keepers' log lines are for a supervisor; what matters here is in the verdict
    chosen = secrets.randbelow(SEEDS) if seed is None else seed
    count = faults or max(1, round(minutes * FAULTS_A_MINUTE))
    wishes = Wishes(
        chosen, count, minutes * 60, rate, nodes,
        has_strangers=strangers, fresh_seconds_max=fresh_seconds, also=wanted,
    )  # fmt: skip
    home = _fresh_home(chosen)
    if not as_json:
        _say_begin(wishes, home)
    campaign = Campaign(home, wishes, _unseen if as_json else _watcher())
    result = asyncio.run(campaign.run(os.environ, keep=keep))
    if as_json:
        say_json(as_data(result))
    else:
        say(as_text(result))
        if keep or not result.has_passed:
            say(f"Kept: {home.path} (FARMIQ_HOME={home.path} farmiq logs; the ledger is in torture/)")
    raise typer.Exit(exits.OK if result.has_passed else exits.FAILED)


def on_request(names: "list[str]") -> "frozenset[Kind]":
    """The kinds of `--also`."""
    from farmiq.cli.errors import BadUsage
    from farmiq.torture.plan import ON_REQUEST

    known = {str(kind): kind for kind in ON_REQUEST}
    for name in names:
        if name not in known:
            raise BadUsage(
                f"{name} is no kind of fault that comes on request",
                why="All other kinds are a part of every campaign.",
                fix=f"--also one of: {', '.join(sorted(known))}",
            )
    return frozenset(known[name] for name in names)


def _fresh_home(seed: int) -> "Home":
    """Beside the farm that may run here, one for each seed. What an earlier campaign of the same seed left is removed."""
    import shutil

    from farmiq.cli.errors import CommandFailed
    from farmiq.cli.running import this_home
    from farmiq.stack import control
    from farmiq.stack.home import Home
    from farmiq.torture.disks import unmount_below

    farm = this_home()
    home = Home(farm.path.with_name(f"{farm.path.name}-torture") / str(seed))
    if control.is_supervised(home):
        raise CommandFailed(
            f"a campaign of seed {seed} runs already",
            why=f"Its farm is in {home.path}.",
            fix="wait for its end, or choose another seed",
        )
    if home.path.exists():
        unmount_below(home.path)
        control.stop(home, purge=True)
        shutil.rmtree(home.path, ignore_errors=True)
    home.path.mkdir(parents=True)
    return home


def _say_begin(wishes: "Wishes", home: "Home") -> None:
    say(f"seed {wishes.seed}: {wishes.faults} faults in {wishes.seconds / 60:g} minutes · {home.path}")
    say(f"The same plan again: {repeated(wishes)}")


def repeated(wishes: "Wishes") -> str:
    """Everything that the plan and the load follow from. As many digits as it takes: a plan is drawn over its very length."""
    minutes = repr(wishes.seconds / 60).removesuffix(".0")
    rate = repr(float(wishes.rate)).removesuffix(".0")
    return (
        f"farmiq torture --seed {wishes.seed} --faults {wishes.faults} --minutes {minutes} --nodes {wishes.nodes}"
        f" --rate {rate}{'' if wishes.has_strangers else ' --no-strangers'}"
        f"{''.join(f' --also {kind}' for kind in sorted(wishes.also))}"
    )


def _watcher() -> "Callable[[Standing], None]":
    from farmiq.cli.torture_report import Lines

    return Lines(say)


def _unseen(_: "Standing") -> None:
    """Nothing is shown on the way to `--json`, which has only an end."""
