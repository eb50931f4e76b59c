from typing import Annotated

import typer

Tenant = Annotated[str | None, typer.Option(help="Only this tenant. Left out: all that the edge knows.")]
Device = Annotated[str | None, typer.Option(help="Only this device.")]
Since = Annotated[
    str | None,
    typer.Option(
        help="Only devices heard of since then, and what was measured or recorded from then on: 2026-01-01T10:00:00Z, or 2h."
    ),
]
Deep = Annotated[
    bool, typer.Option("--deep", help="Look at every row and every picture, however many there are. Takes its time.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]


def audit(
    tenant: Tenant = None, device: Device = None, since: Since = None, deep: Deep = False, as_json: AsJson = False
) -> None:
    """Show that nothing is missing: captured = stored + declared lost + in flight, for each device and at every tier.

    Asks the farm that runs here, or the services that EDGE_..._URL and CLOUD_..._URL name. Changes nothing and stops nobody. Exit
    code 0: it balances; 4: it does not; 1: somebody could not be asked.
    """
    import asyncio

    from farmiq.cli.audit_report import tell
    from farmiq.cli.audit_run import run_audit

    verdict = asyncio.run(run_audit(tenant, device, since, is_deep=deep, is_quiet=as_json))
    tell(verdict, as_json=as_json)
