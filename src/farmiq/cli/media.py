from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli import exits
from farmiq.cli.migrate import Tier
from farmiq.cli.terminal import own_name, say, say_json

if TYPE_CHECKING:
    from farmiq.cli.media_check import Checked

media = typer.Typer(
    name="media",
    help="Pictures: compare what the database knows with what the object store has.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@media.callback()
def _media() -> None:
    """A group of its own, although there is one command yet: `farmiq media check`."""


@media.command()
def check(
    repair: Annotated[bool, typer.Option("--repair", help="Correct what can be corrected.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read every picture and compare its checksum.")] = False,
    tier: Annotated[Tier, typer.Option(help="Whose pictures.")] = Tier.EDGE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find rows without their picture, pictures without their row, and pictures that have changed.

    The database is DATABASE_URL (or DATABASE_URL_FILE) and the object store S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY and
    MEDIA_BUCKET, else those of the farm which runs on this machine. Services may go on working meanwhile. Exit code 1 when
    something is wrong and was not repaired.
    """
    import asyncio
    import os

    import msgspec

    from farmiq.cli.media_check import check_pictures
    from farmiq.kit import logging

    logging.configure("CRITICAL")
    if not as_json:
        say(f"checking the pictures of the {tier}{', each to its last byte' if deep else ''}")
    checked = asyncio.run(check_pictures(tier, os.environ, is_deep=deep, is_repairing=repair))
    if as_json:
        say_json(msgspec.to_builtins(checked))
    else:
        show(checked, is_repairing=repair)
    raise typer.Exit(exits.FAILED if checked.left else exits.OK)


def show(checked: "Checked", *, is_repairing: bool) -> None:
    from farmiq.cli.media_check import MEANINGS

    for kind, keys in checked.examples.items():
        found, repaired = checked.found[kind], checked.repaired[kind]
        say(f"{MEANINGS[kind]}: {found}" + (f", {repaired} repaired" if is_repairing else ""))
        for key in keys:
            say(f"  {key}")
        if found > len(keys):
            say(f"  and {found - len(keys)} more")
    wrong = sum(checked.found.values())
    say(f"{checked.pictures} pictures were compared: " + (f"{wrong} are wrong." if wrong else "nothing is wrong."))
    if checked.left and not is_repairing:
        say(f"{own_name()} media check --tier {checked.tier} --repair corrects what can be corrected.")
