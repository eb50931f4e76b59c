"""The house rules as a program that says no and names the replacement.

A rule looks at one file and yields a complaint for each breach. Beside each rule stand texts that it must refuse and texts
that it must let pass, so a rule that has stopped biting is found out too."""

import ast
import importlib.util
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from farmiq.contracts.services import SERVICES

ROOT = Path(__file__).resolve().parent.parent
OPEN_DOT_FOLDERS = {".ci", ".github"}
BUILT_FOLDERS = {"__pycache__", "build", "dist", "node_modules"}

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70


@dataclass(frozen=True)
class File:
    path: str  # as written in the repository, with forward slashes
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def comments(self) -> list[tuple[int, str]]:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


Find = Callable[[File], Iterator[str]]


@dataclass(frozen=True)
class Rule:
    find: Find
    applies: Callable[[str], bool]
    path: str  # where the examples would stand
    refused: tuple[str, ...]
    allowed: tuple[str, ...]


@cache
def repository_files() -> list[File]:
    """Every text file that we keep: what is built, installed or cached lies in dot folders or has a name of its own."""
    found = []
    for path in sorted(_walk(ROOT)):
        try:
            found.append(File(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue  # pictures and models hold no prose and no code
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink() or path.name == ".git":  # a file in a second worktree
            continue
        if path.is_file():
            yield path
        elif _is_ours(path.name):
            yield from _walk(path)


def _is_ours(folder_name: str) -> bool:
    if folder_name.startswith("."):
        return folder_name in OPEN_DOT_FOLDERS
    return folder_name not in BUILT_FOLDERS and not folder_name.endswith(".egg-info")


# --- Where a rule applies ------------------------------------------------------------------------------------------------------


def _python(path: str) -> bool:
    return path.endswith(".py")


def _source(path: str) -> bool:
    return _python(path) and path.startswith("src/")


def _quiet_source(path: str) -> bool:
    return _source(path) and not path.startswith("src/farmiq/cli/")


def _package_start(path: str) -> bool:
    return _source(path) and path.endswith("/__init__.py")


def _tests(path: str) -> bool:
    return _python(path) and path.startswith("tests/") and not path.startswith("tests/support/")


def _written_by_hand(path: str) -> bool:
    return not path.endswith(".lock") and path != "LICENSE" and "/static/vendor/" not in path


# --- Rules ---------------------------------------------------------------------------------------------------------------------


def vague_names(file: File) -> Iterator[str]:
    vague = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
    for part in Path(file.path).with_suffix("").parts:
        if part in vague:
            yield f"`{part}` says nothing: name the module by what it knows, like `rollup.py` or `dedupe.py`"


def long_files(file: File) -> Iterator[str]:
    lines = file.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{lines} lines: split it by the nouns in it, at most {FILE_LINES_MAX} lines a file"


def long_functions(file: File) -> Iterator[str]:
    for function in file.functions():
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{function.lineno}: `{function.name}` has {lines} lines: give its steps names of their own"


def swallowed_errors(file: File) -> Iterator[str]:
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node.type):
            if node.type is None:
                yield f"{node.lineno}: a bare `except:` also catches the end of the process: name the exception"
            elif all(isinstance(step, ast.Pass | ast.Continue) for step in node.body):
                yield f"{node.lineno}: whatever went wrong here is lost: name the exception, or raise it"
    for call in file.calls():
        if ast.unparse(call.func) in {"suppress", "contextlib.suppress"} and any(map(_catches_everything, call.args)):
            yield f"{call.lineno}: suppresses every error: name the one that is harmless here"


def _catches_everything(kind: ast.expr | None) -> bool:
    return kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"})


def sleeping_tests(file: File) -> Iterator[str]:
    """`sleep(0)` lets others run and waits for nothing; in an `except` it is the pause before the next attempt."""
    pauses = {
        id(node)
        for handler in ast.walk(file.tree)
        if isinstance(handler, ast.ExceptHandler)
        for node in ast.walk(handler)
    }
    for call in file.calls():
        if ast.unparse(call.func) not in {"time.sleep", "asyncio.sleep", "anyio.sleep"} or id(call) in pauses:
            continue
        if [ast.unparse(argument) for argument in call.args] != ["0"]:
            yield f"{call.lineno}: sleeping is a guess: wait with `support.waiting.wait_for` or `eventually`"


def unasserting_tests(file: File) -> Iterator[str]:
    functions = {function.name: function for function in file.functions()}
    for name, function in functions.items():
        if name.startswith("test") and not _asserts(function, functions, seen=set()):
            yield f"{function.lineno}: `{name}` asserts nothing, so it can't fail: state what is true afterwards"


def _asserts(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef],
    seen: set[str],
) -> bool:
    """An assertion of its own, one of pytest's, a wait that fails when time is up, or a function of this file that has one."""
    seen.add(function.name)
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in {"raises", "warns", "fail", "wait_for", "eventually"} or name.startswith("assert"):
            return True
        if name in functions and name not in seen and _asserts(functions[name], functions, seen):
            return True
    return False


def lost_cancellations(file: File) -> Iterator[str]:
    """Up to Python 3.11 `wait_for` drops a cancellation that comes in the moment in which what it waits for is done."""
    for call in file.calls():
        if ast.unparse(call.func) == "asyncio.wait_for":
            yield f"{call.lineno}: `asyncio.wait_for` may drop a cancellation: use `async with asyncio.timeout(...)`"


def shadowed_annotations(file: File) -> Iterator[str]:
    """From Python 3.14 on annotations are evaluated when somebody reads them: a name then means the field, not the import."""
    for cls in (node for node in ast.walk(file.tree) if isinstance(node, ast.ClassDef)):
        fields = [line for line in cls.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)]
        names = {ast.unparse(field.target) for field in fields}
        for field in fields:
            used = {node.id for node in ast.walk(field.annotation) if isinstance(node, ast.Name)}
            for name in sorted(used & names):
                yield f"{field.lineno}: `{name}` is also a field of `{cls.name}`: import the type itself under its own name"


_TESTED_DEATHS = {"dying", "dying_command", "die_at", "dies", "Death", "support.dying", "support.dying_command"}


def unexplained_long_tests(file: File) -> Iterator[str]:
    marks = [node for node in ast.walk(file.tree) if isinstance(node, ast.Attribute) and node.attr == "long"]
    marks = [node for node in marks if ast.unparse(node) == "pytest.mark.long"]
    reasons = {id(call.func): call for call in file.calls() if [word.arg for word in call.keywords] == ["reason"]}
    for mark in marks:
        if id(mark) not in reasons:
            yield f"{mark.lineno}: what `make test` leaves out says why: `pytest.mark.long(reason=...)`"
    if marks and not _TESTED_DEATHS.isdisjoint(_names(file.tree)):
        yield f"{marks[0].lineno}: what dies between two steps decides about every change: put the long test elsewhere"


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.ImportFrom(module=str(name)) | ast.Constant(value=str(name)):
                yield name


_UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|NotImplemented" + "Error")


def unfinished_work(file: File) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), 1):
        if mark := _UNFINISHED.search(line):
            yield f"{number}: `{mark.group()}`: finish it, or write an issue and leave it out"


_MACHINE = re.compile(
    r"pypi\.[a-z]|python" + r"hosted\.|(?<!no-emit-)index-ur[l]|(?<![\w.])/(?:work/|Users/|home/[a-z]|root/\.)[\w.]"
)


def machine_traces(file: File) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), 1):
        if trace := _MACHINE.search(line):
            yield f"{number}: `{trace.group()}` holds on one machine only: pip's settings name the index, paths start here"


def printing_source(file: File) -> Iterator[str]:
    for call in file.calls():
        if isinstance(call.func, ast.Name) and call.func.id == "print":
            yield f"{call.lineno}: prints: log an event with `farmiq.kit.logging`, or raise an error that says it"


_NOQA = re.compile(r"#\s*noqa\b(?P<codes>:\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*)?(?P<reason>\s+-\s+\S.*)?")
_IGNORE = re.compile(r"#\s*type:\s*ignore(?P<codes>\[[a-z0-9, -]+\])?(?P<reason>\s+#\s+\S.*)?")


def silent_exceptions_to_rules(file: File) -> Iterator[str]:
    for number, comment in file.comments:
        for pattern, form in (
            (_NOQA, "# noqa: CODE - why"),
            (_IGNORE, "# type: ignore[code]  # why"),
        ):
            mark = pattern.search(comment)
            if mark and not (mark["codes"] and mark["reason"]):
                yield f"{number}: an exception to a rule says which one and why: `{form}`"


def missing_cards(file: File) -> Iterator[str]:
    if not (ast.get_docstring(file.tree) or "").strip():
        yield "no card: open the package with what comes in, what goes out and what it promises"


_EVENT = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_IRREGULAR = re.compile(
    "began|begun|broke|broken|built|came|cut|found|gave|given|gone|held|hit|kept|left|lost|made|met|put|ran|read"
    "|seen|sent|set|shut|split|taken|took|went|written|wrote"
)

_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def unsteady_log_events(file: File) -> Iterator[str]:
    for call in file.calls():
        target = call.func
        if not (isinstance(target, ast.Attribute) and target.attr in _LEVELS and _is_logger(target.value)):
            continue
        event = call.args[0] if call.args else None
        if not (isinstance(event, ast.Constant) and isinstance(event.value, str) and _EVENT.fullmatch(event.value)):
            yield f'{call.lineno}: an event is a constant name, the rest are keywords: log.info("batch_stored", count=3)'
        elif not any(word.endswith("ed") or _IRREGULAR.fullmatch(word) for word in event.value.split("_")):
            yield f"{call.lineno}: `{event.value}`: an event has happened: name it in the past tense, like `batch_stored`"


def _is_logger(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"log", "logger", "_log"}


# --- The rules with what they refuse and what they let pass --------------------------------------------------------------------

LONG_FUNCTION = "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX

RULES = {
    "names are narrow": Rule(vague_names, _python, "src/farmiq/edge/utils.py", ("",), ()),
    "files are short": Rule(
        long_files, _source, "src/a.py", ("x = 1\n" * (FILE_LINES_MAX + 1),), ("x = 1\n" * FILE_LINES_MAX,)
    ),
    "functions are short": Rule(
        long_functions, _source, "src/a.py", (LONG_FUNCTION,), (LONG_FUNCTION.removesuffix("    x = 1\n"),)
    ),
    "errors are not swallowed": Rule(
        swallowed_errors,
        _python,
        "src/a.py",
        (
            "try:\n    f()\nexcept:\n    pass\n",
            "for x in y:\n    try:\n        f()\n    except Exception:\n        continue\n",
            "with contextlib.suppress(Exception):\n    f()\n",
        ),
        ("try:\n    f()\nexcept KeyError:\n    pass\n", "with suppress(OSError):\n    f()\n"),
    ),
    "tests wait for conditions": Rule(
        sleeping_tests,
        _tests,
        "tests/unit/test_a.py",
        ("import time\ntime.sleep(1)\n", "async def test_a():\n    await asyncio.sleep(1)\n"),
        ("wait_for(ready)\n", "await asyncio.sleep(0)\n", "try:\n    f()\nexcept Away:\n    time.sleep(0.1)\n"),
    ),
    "tests can fail": Rule(
        unasserting_tests,
        _tests,
        "tests/unit/test_a.py",
        ("def test_a():\n    f()\n", "def f():\n    f()\n\n\nasync def test_a():\n    f()\n"),
        (
            "def test_a():\n    assert f()\n",
            "def test_a():\n    with pytest.raises(E):\n        f()\n",
            "def check():\n    assert f()\n\n\ndef test_a():\n    check()\n",
        ),
    ),
    "cancellations arrive": Rule(
        lost_cancellations,
        _source,
        "src/a.py",
        ("await asyncio.wait_for(f(), 5)\n",),
        ("async with asyncio.timeout(5):\n    await f()\n", "await condition.wait_for(ready)\n"),
    ),
    "annotations mean what they say": Rule(
        shadowed_annotations,
        _python,
        "src/a.py",
        ("class A(Struct):\n    hours: list[hours.HourRow]\n", "class A:\n    a: b\n    b: int\n"),
        ("class A(Struct):\n    hours: list[HourRow]\n", "class A:\n    a: int\n    b: int\n"),
    ),
    "long tests say why, and leave no death out": Rule(
        unexplained_long_tests,
        lambda path: _tests(path) and not path.endswith("test_tidy.py"),
        "tests/unit/test_a.py",
        (
            "@pytest.mark.long\ndef test_a():\n    assert f()\n",
            "pytestmark = pytest.mark.long()\n",
            "from support.dying import die_at\npytestmark = pytest.mark.long(reason='x')\n",
            "pytestmark = pytest.mark.long(reason='x')\nprocess = service_process('a', dies=DEATH)\n",
            "pytestmark = pytest.mark.long(reason='x')\nrun([python, '-m', 'support.dying'])\n",
        ),
        ("pytestmark = pytest.mark.long(reason='a million rows')\n", "from support.dying import die_at\n"),
    ),
    "work is finished": Rule(
        unfinished_work,
        _written_by_hand,
        "src/a.py",
        ("# TO" + "DO: later\n", "raise NotImplemented" + "Error\n"),
        ("todo = []\n",),
    ),
    "no machine leaves a trace": Rule(
        machine_traces,
        lambda _path: True,
        "Makefile",
        ("https://pypi" + ".org/simple\n", "--index" + "-url x\n", "cd /wo" + "rk/main\n", "/home" + "/ann/farm\n"),
        ("--no-emit-index-url\n", "docs/work/plan\n", "~/farm\n"),
    ),
    "only the command line prints": Rule(
        printing_source, _quiet_source, "src/farmiq/edge/a.py", ("print(1)\n",), ("file.print(1)\n",)
    ),
    "exceptions to rules carry a reason": Rule(
        silent_exceptions_to_rules,
        _python,
        "src/a.py",
        ("x = 1  # no" + "qa\n", "x = 1  # no" + "qa: S104\n", "x = 1  # type: ig" + "nore[attr-defined]\n"),
        ("x = 1  # no" + "qa: S104 - why\n", "x = 1  # type: ig" + "nore[attr-defined]  # why\n", 'x = "# no" "qa"\n'),
    ),
    "packages open with a card": Rule(
        missing_cards,
        _package_start,
        "src/farmiq/edge/__init__.py",
        ("", "x = 1\n", '""" """\n'),
        ('"""What it is."""\n',),
    ),
    "log events are constant and past": Rule(
        unsteady_log_events,
        _source,
        "src/a.py",
        ('log.info(f"stored {n}")\n', 'log.info("Stored it")\n', 'log.info("batch_store", n=1)\n', "log.info(name)\n"),
        ('log.info("batch_stored", n=n)\n', 'math.info("x")\n'),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_the_repository_keeps_the_rule(name: str) -> None:
    rule = RULES[name]
    complaints = [
        f"{file.path}:{complaint}"
        for file in repository_files()
        if rule.applies(file.path)
        for complaint in rule.find(file)
    ]
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.parametrize("name", RULES)
def test_the_rule_refuses_a_breach(name: str) -> None:
    rule = RULES[name]
    assert rule.applies(rule.path)
    unseen = [text for text in rule.refused if not list(rule.find(File(rule.path, text)))]
    assert rule.refused
    assert not unseen


@pytest.mark.parametrize("name", RULES)
def test_the_rule_lets_the_replacement_pass(name: str) -> None:
    rule = RULES[name]
    complaints = [complaint for text in rule.allowed for complaint in rule.find(File(rule.path, text))]
    assert not complaints


# --- What holds for the tree as a whole ----------------------------------------------------------------------------------------


def folders_without_card(source: Path) -> list[str]:
    """Revision folders are read by path and never imported, so they alone need no `__init__`."""
    folders = {path.parent for path in source.rglob("*.py") if path.parent.name != "versions"}
    return sorted(folder.relative_to(source).as_posix() for folder in folders if not (folder / "__init__.py").exists())


def absent_files(text: str, root: Path) -> list[str]:
    named = re.findall(r"`((?:src|tests)/[\w./-]*)`", text)
    return [name for name in named if not (root / name).exists()]


def services_without_module(modules: list[str]) -> list[str]:
    return [module for module in modules if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False  # not even its package


def test_every_folder_of_the_source_has_a_card() -> None:
    assert folders_without_card(ROOT / "src" / "farmiq") == []


def test_a_folder_without_card_is_found(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    for folder in ("versions", "edge"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").touch()
    assert folders_without_card(tmp_path) == ["edge"]


def test_every_file_named_in_the_architecture_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert "`src/" in text
    assert absent_files(text, ROOT) == []


def test_a_file_that_is_gone_is_found() -> None:
    assert absent_files("see `tests/test_tidy.py` and `src/farmiq/gone.py`", ROOT) == ["src/farmiq/gone.py"]


def test_every_service_of_the_catalogue_has_its_module() -> None:
    assert services_without_module([service.module for service in SERVICES]) == []


def test_a_service_without_module_is_found() -> None:
    assert services_without_module(["farmiq.kit.clock", "farmiq.gone.main"]) == ["farmiq.gone.main"]
