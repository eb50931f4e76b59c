"""Addresses of pages with what was asked for in them, so that every page can be linked to."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode


def address(path: str, parameters: Mapping[str, Any]) -> str:
    """Parameters that are None or empty are left out; one that is a list is given several times."""
    pairs = {name: value for name, value in parameters.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(pairs, doseq=True)}" if pairs else path


def linker(path: str, parameters: Mapping[str, Any]) -> Callable[..., str]:
    """For templates: the same page with some parameters changed, `link(range="7d", after=none)`."""

    def link(to: str = path, **changed: Any) -> str:
        return address(to, {**parameters, **changed})

    return link
