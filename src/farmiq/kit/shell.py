import shlex
from collections.abc import Mapping


def exports(variables: Mapping[str, str]) -> str:
    """Lines that a shell evaluates, whatever the values hold."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
