"""Tenants take turns."""

from collections.abc import Sequence


def in_turn(tenants: Sequence[str], last: str) -> list[str]:
    """Everybody once, beginning after the one that came last."""
    return [tenant for tenant in tenants if tenant > last] + [tenant for tenant in tenants if tenant <= last]
