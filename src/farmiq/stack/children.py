from dataclasses import dataclass

from farmiq.stack.program import Program
from farmiq.stack.state import Kind


@dataclass(frozen=True)
class Child:
    """One supervised program and what people are told about it."""

    program: Program
    kind: Kind
    port: int | None = None
    url: str | None = None
    # Embedded servers that have to be healthy before this one is started, and that stop after it.
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.program.name
