"""Mutations of our own code, made from its syntax: each is one small change in one function of a listed module.

What is changed: comparisons (`<` and `<=`, `==` and `!=`), the clauses of a condition, guards and filters that are left out,
`min` and `max`, the order of two steps, a step that is left out, and the end of a transaction. A statement of SQL is changed in
the model that stands for it.

A mutation is applied by giving the function other code: whoever imported it, runs it. So it costs nothing and is undone at once.
"""

import ast
import copy
import difflib
import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
Edit = Callable[[ast.AST], ast.AST]
"""Of the node that is changed, in a copy of its function. Answers what stands in its place."""

_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
"""Not `is None`: the other way round it would mostly be a crash, and not a decision."""
_JUMPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_APART_MAX = 3
_MODELS = {
    "outbox_tables": "outbox",
    "cloud_tables": "cloud",
    "gateway_tables": "gateway",
    "measurement_tables": "timeseries",
}


class Site(NamedTuple):
    """A node that can be changed, how, and in what words."""

    node: ast.AST
    what: str
    edit: Edit


@dataclass(frozen=True)
class Mutation:
    module: str
    function: str
    what: str
    line: int
    place: int
    number: int

    @property
    def name(self) -> str:
        """The same as long as the function is the same, wherever in its file it stands."""
        return f"{self.module}:{self.function}: {self.what}"

    @property
    def where(self) -> str:
        path = Path(inspect.getsourcefile(_module(self.module)) or "")
        return f"{path.name if 'simulation' in self.module else '/'.join(path.parts[path.parts.index('src') :])}:{self.line}"

    @cached_property
    def diff(self) -> str:
        before = ast.unparse(_functions(self.module)[self.function]).splitlines()
        after = ast.unparse(self._changed()).splitlines()
        lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        return "\n".join(line for line in lines if not line.startswith("@@"))

    @contextmanager
    def applied(self) -> Iterator[None]:
        function = _live(self.module, self.function)
        before = function.__code__
        function.__code__ = self._code(before)
        try:
            yield
        finally:
            function.__code__ = before

    def fits(self) -> bool:
        """Whether it can be put in place of the function's own code: a name of an outer function must not have gone."""
        before = _live(self.module, self.function).__code__
        return not before.co_freevars or self._code(before).co_freevars == before.co_freevars

    def _changed(self) -> Function:
        function = copy.deepcopy(_functions(self.module)[self.function])
        sites = [site for site in _sites(function) if site.node is _nodes(function)[self.place]]
        site = sites[self.number]
        replacement = site.edit(site.node)
        if replacement is not site.node:
            function = _Replacing(site.node, replacement).visit(function)
        return ast.fix_missing_locations(function)

    def _code(self, before: CodeType) -> CodeType:
        tree = copy.deepcopy(_tree(self.module))
        place = next(
            place
            for place, node in enumerate(_nodes(_tree(self.module)))
            if node is _functions(self.module)[self.function]
        )
        tree = _Replacing(_nodes(tree)[place], self._changed()).visit(tree)
        compiled = compile(tree, before.co_filename, "exec", dont_inherit=True)
        return next(
            code
            for code in _codes(compiled)
            if (code.co_qualname, code.co_name) == (before.co_qualname, before.co_name)
        )


def mutations_of(module: str, functions: Sequence[str]) -> list[Mutation]:
    """All of these functions, in the order of the file."""
    return [mutation for function in functions for mutation in _mutations_of(module, function) if mutation.fits()]


def _mutations_of(module: str, name: str) -> Iterator[Mutation]:
    function = _functions(module)[name]
    places = {id(node): place for place, node in enumerate(_nodes(function))}
    numbers: dict[int, int] = {}
    known: dict[str, int] = {}
    for site in _sites(function):
        place = places[id(site.node)]
        number = numbers[place] = numbers.get(place, -1) + 1
        known[site.what] = known.get(site.what, 0) + 1
        what = site.what if known[site.what] == 1 else f"{site.what} ({known[site.what]})"
        yield Mutation(module, name, what, getattr(site.node, "lineno", function.lineno), place, number)


# Where something can be changed


def _sites(function: Function) -> Iterator[Site]:
    for node in _nodes(function):
        match node:
            case ast.Compare():
                yield from _comparisons(node)
            case ast.BoolOp() if all(_is_condition(one) for one in node.values):
                yield from _clauses(node)
            case ast.If():
                yield from _guards(node)
            case ast.comprehension():
                yield from _filters(node)
            case ast.Call(func=ast.Name(id="min" | "max")):
                yield from _extremes(node)
            case ast.AsyncWith():
                yield from _transactions(node)
        for block in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, block, None), list):
                yield from _orders(node, block, statements)


def _comparisons(node: ast.Compare) -> Iterator[Site]:
    for place, operator in enumerate(node.ops):
        if (other := _OTHER.get(type(operator))) is None:
            continue

        def change(there: ast.AST, place: int = place, other: type[ast.cmpop] = other) -> ast.AST:
            assert isinstance(there, ast.Compare)
            there.ops[place] = other()
            return there

        changed = change(copy.deepcopy(node))
        yield Site(node, f"`{_text(node)}` becomes `{_text(changed)}`", change)


def _clauses(node: ast.BoolOp) -> Iterator[Site]:
    def swap(there: ast.AST) -> ast.AST:
        assert isinstance(there, ast.BoolOp)
        there.op = ast.Or() if isinstance(there.op, ast.And) else ast.And()
        return there

    if not any(_is_none_check(one) for one in node.values):
        yield Site(node, f"`{_text(node)}` becomes `{_text(swap(copy.deepcopy(node)))}`", swap)
    for place, clause in enumerate(node.values):
        if _is_none_check(clause):
            continue

        def leave_out(there: ast.AST, place: int = place) -> ast.AST:
            assert isinstance(there, ast.BoolOp)
            values = there.values[:place] + there.values[place + 1 :]
            return values[0] if len(values) == 1 else ast.BoolOp(there.op, values)

        yield Site(node, f"`{_text(node)}` without `{_text(clause)}`", leave_out)


def _guards(node: ast.If) -> Iterator[Site]:
    """A guard is never met; any other condition always holds."""
    is_guard = isinstance(node.body[-1], _JUMPS)
    if node.orelse or _is_none_check(node.test):
        return

    def change(there: ast.AST) -> ast.AST:
        assert isinstance(there, ast.If)
        there.test = ast.Constant(not is_guard)
        return there

    yield Site(node, f"`if {_text(node.test)}` {'never' if is_guard else 'always'} holds", change)


def _filters(node: ast.comprehension) -> Iterator[Site]:
    for place, condition in enumerate(node.ifs):

        def leave_out(there: ast.AST, place: int = place) -> ast.AST:
            assert isinstance(there, ast.comprehension)
            del there.ifs[place]
            return there

        yield Site(node, f"the filter `{_text(condition)}` is left out", leave_out)


def _extremes(node: ast.Call) -> Iterator[Site]:
    for place, argument in enumerate(node.args):

        def take(there: ast.AST, place: int = place) -> ast.AST:
            assert isinstance(there, ast.Call)
            return there.args[place]

        if len(node.args) > 1 and not isinstance(argument, ast.Starred):
            yield Site(node, f"`{_text(node)}` becomes `{_text(argument)}`", take)


def _transactions(node: ast.AsyncWith) -> Iterator[Site]:
    """Several statements, each on its own: a crash between them leaves the first without the second."""
    places = [place for place, item in enumerate(node.items) if "transaction()" in _text(item)]
    if not places or _steps(node.body) < 2:
        return

    def open_up(there: ast.AST) -> ast.AST:
        assert isinstance(there, ast.AsyncWith)
        del there.items[places[0]]
        return there if there.items else ast.If(ast.Constant(True), there.body, [])

    yield Site(node, f"no transaction around `{_text(node.body[0])}`", open_up)


def _orders(node: ast.AST, block: str, statements: list[ast.stmt]) -> Iterator[Site]:
    for later, statement in enumerate(statements):
        if isinstance(statement, ast.Expr) and _is_step(statement):

            def leave_out(there: ast.AST, later: int = later) -> ast.AST:
                getattr(there, block)[later] = ast.Pass()
                return there

            yield Site(node, f"`{_text(statement)}` is left out", leave_out)
        for earlier in range(max(0, later - _APART_MAX), later):
            if not _may_precede(statements[earlier : later + 1]):
                continue

            def move(there: ast.AST, earlier: int = earlier, later: int = later) -> ast.AST:
                its: list[ast.stmt] = getattr(there, block)
                its.insert(earlier, its.pop(later))
                return there

            yield Site(node, f"`{_text(statement)}` before `{_text(statements[earlier])}`", move)


def _is_condition(node: ast.expr) -> bool:
    """Not a default, as in `given or known`."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, ast.Compare | ast.BoolOp) or _text(node).rpartition(".")[2].startswith(
        ("is_", "_is_", "has_", "may_", "bool(")
    )


def _is_none_check(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)


def _may_precede(statements: list[ast.stmt]) -> bool:
    """Whether the last of these can be done before the first: both are steps, and neither needs the other's names."""
    *before, moved = statements
    if not _is_step(moved) or not _is_step(before[0]) or isinstance(before[-1], _JUMPS):
        return False
    needed, made = _names(moved, ast.Load), _names(moved, ast.Store)
    return not any(
        _names(one, ast.Store) & (needed | made) or _names(one, ast.Load) & made or _jumps(one) for one in before
    )


def _is_step(statement: ast.stmt) -> bool:
    """It does something that others can see: it waits for somebody, or it calls one who keeps something."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Return | ast.Raise):
        return False
    if any(isinstance(one, ast.Await | ast.AsyncWith) for one in ast.walk(statement)):
        return True
    return isinstance(statement, ast.Expr | ast.For) and any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and _is_ours(one.func)
        for one in ast.walk(statement)
    )


def _is_ours(called: ast.Attribute) -> bool:
    """A method of something that the object works with, and not of a list of its own, nor a log line or a counter."""
    text = _text(called)
    return text.startswith(
        ("self._", "self.", "disk.", "quarantine.", "segment.", "recorder.", "lanes.", "publisher.")
    ) and not (text.endswith((".append", ".inc", ".set", ".clear", ".add", ".discard", ".update", ".observe")))


def _steps(statements: Sequence[ast.stmt]) -> int:
    return sum(isinstance(one, ast.Await) for statement in statements for one in ast.walk(statement))


def _jumps(statement: ast.stmt) -> bool:
    return any(isinstance(one, _JUMPS) for one in ast.walk(statement))


def _names(statement: ast.stmt, kind: type[ast.expr_context]) -> set[str]:
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, kind)}


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:87]}..."


# A module's syntax and its functions


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def _nodes(tree: ast.AST) -> list[ast.AST]:
    return list(ast.walk(tree))


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(_module(module)))


@cache
def _functions(module: str) -> dict[str, Function]:
    """By their qualified names."""
    found: dict[str, Function] = {}
    for node in _tree(module).body:
        if isinstance(node, Function):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}": one for one in node.body if isinstance(one, Function)}
    return found


def _live(module: str, function: str) -> FunctionType:
    holder: Any = _module(module)
    *classes, name = function.split(".")
    for one in classes:
        holder = getattr(holder, one)
    found = inspect.getattr_static(holder, name)
    found = getattr(found, "fget", None) or getattr(found, "__func__", None) or found
    return inspect.unwrap(found)  # type: ignore[no-any-return]  # a function, by what the syntax says


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)
