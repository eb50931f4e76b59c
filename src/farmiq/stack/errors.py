from farmiq.kit.errors import Fatal


class StackError(Fatal):
    """The embedded servers could not do what was asked."""

    code = "stack"

    def __init__(self, what: str, *, fix: str | None = None) -> None:
        super().__init__(what)
        self.fix = fix
