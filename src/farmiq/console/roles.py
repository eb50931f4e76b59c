"""Who may do what: a viewer looks, an operator repairs, an admin lets people and devices in."""

from typing import Final, Literal

Role = Literal["viewer", "operator", "admin"]

ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")


def may(role: Role, needed: Role) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)
