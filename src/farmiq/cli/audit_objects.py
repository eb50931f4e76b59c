"""The pictures of an audit, in the object stores themselves: whether what the databases call stored is there."""

from collections.abc import Mapping
from typing import Final

from farmiq.audit.balance import Balance
from farmiq.audit.findings import Finding, found
from farmiq.cli.media_check import Checked, check_pictures
from farmiq.cli.migrate import Tier
from farmiq.cli.object_store import NAMES

PICTURES_MAX: Final = 5000
"""So many are looked for without being asked: a few seconds."""
WRONG: Final = ("no_object", "other_size", "other_checksum")
PREFIXES: Final = {Tier.EDGE: "", Tier.CLOUD: "CLOUD_"}


async def check_objects(
    verdict: Balance, environment: Mapping[str, str], tenant_id: str | None, *, is_deep: bool
) -> tuple[list[Finding], list[str]]:
    """What is wrong, and in words what was not looked at."""
    stored = sum(weighing.pictures for weighing in verdict.weighings)
    if not stored:
        return [], []
    if stored > PICTURES_MAX and not is_deep:
        return [], [f"{stored:,} pictures were compared by the databases' checksums only: --deep reads each of them."]
    findings: list[Finding] = []
    notes: list[str] = []
    for tier, prefix in PREFIXES.items():
        names = {"DATABASE_URL": f"{tier.upper()}_DATABASE_URL", **{name: prefix + name for name in NAMES}}
        if not all(environment.get(name) for name in names.values()):
            notes.append(
                f"The object store of the {tier} is not known here: its pictures were compared by checksum only."
            )
            continue
        own = {name: environment[source] for name, source in names.items()}
        checked = await check_pictures(tier, own, is_deep=is_deep, is_repairing=False)
        findings += findings_of(checked, tenant_id)
    return findings, notes


def findings_of(checked: Checked, tenant_id: str | None) -> list[Finding]:
    """One for each key that is named, and one for the rest of a kind."""
    findings: list[Finding] = []
    for kind in WRONG:
        keys = [key for key in checked.examples.get(kind, []) if tenant_id in (None, _tenant_of(key))]
        findings += [found("picture_object", _tenant_of(key), key, 1, tier=checked.tier) for key in keys]
        unnamed = checked.found.get(kind, 0) - len(checked.examples.get(kind, []))
        if unnamed > 0:
            findings.append(found("picture_object", tenant_id or "", f"{kind}, not named", unnamed, tier=checked.tier))
    return findings


def _tenant_of(key: str) -> str:
    """`tenants/NAME/...`"""
    parts = key.split("/")
    return parts[1] if len(parts) > 1 else ""
