"""Which blocks of README, start.md and the guides are run and which are not, and the runner itself.

They are run by tests/e2e/test_guides.py and tests/e2e/test_weigh_stations.py."""

from pathlib import Path

import pytest

from support.documents import DOCS, ROOT
from support.page_runner import Block, PageFailed, Shell, blocks, check_data, commands, differences, run_page

PAGES = [ROOT / "README.md", DOCS / "start.md", *sorted((DOCS / "guides").glob("*.md"))]
BLOCKS_MIN = 70
# A block more that is not run is a decision: it changes this list, and so has to be made on purpose.
NOT_RUN = {
    "README.md": 2,  # make test would run itself; a drawing
    "sensors.md": 2,  # needs sensors; a message
    "train-a-model.md": 2,  # a message; hours of training
}
LANGUAGES = {"sh", "console", "json", "toml", "csv"}


def test_every_block_is_run_or_says_why_not() -> None:
    found = [block for page in PAGES for block in blocks(page)]
    excluded = [block for block in found if block.is_excluded]
    assert len(found) >= BLOCKS_MIN
    assert {page.name: count for page in PAGES if (count := sum(one.page == page for one in excluded))} == NOT_RUN
    assert [str(one) for one in excluded if len(one.about) < 10] == []
    assert [
        str(one) for one in found if not one.is_excluded and one.note != "file" and one.language not in LANGUAGES
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_data_is_what_it_claims_to_be_and_commands_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.language == "console" and not block.is_excluded:
            assert commands(block)
        elif block.language in {"json", "toml", "csv"}:
            check_data(block)


# --- The runner ----------------------------------------------------------------------------------------------------------------


def console(text: str) -> Block:
    return Block(Path("page.md"), 10, "console", text)


def test_a_command_goes_on_until_the_shell_has_enough_of_it() -> None:
    found = commands(console("$ a 'b\nc'\none\ntwo\n$ d \\\n  e\n$ cat <<X\nf\nX\n$ g |\nh\n"))
    assert [(one.line, one.text, one.output) for one in found] == [
        (10, "a 'b\nc'", ("one", "two")),
        (14, "d \\\n  e", ()),
        (16, "cat <<X\nf\nX", ()),
        (19, "g |\nh", ()),
    ]


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        (("captured 8,645 · lost 0",), "captured 12 · lost 3\n"),
        (("safe: 76.9 GB free",), "safe: 980 MB free"),
        (("first", "…", "last"), "first\nanything\nlast\n"),
        (("  1 s  5 wait", "  2 s  nothing waits"), "   1 s  nothing waits\n"),
        (("user  tenant",), "user     tenant\n"),
        (("The token 69fd6954bc39 works.",), "The token 1fc7b93cca97 works."),
    ],
)
def test_output_of_the_same_shape_is_the_same(expected: tuple[str, ...], output: str) -> None:
    assert differences(expected, output) == []


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        (("Healed: wan.",), "Healed: broker.\n"),
        (("captured 8,645 · lost 0",), "captured 12\n"),
        (("first", "last"), "first\n"),
        (("one", "1 s  nothing waits"), "one\n"),
        (("Written to acme.json",), ""),
    ],
)
def test_output_of_another_shape_is_found_out(expected: tuple[str, ...], output: str) -> None:
    assert len(differences(expected, output)) == 1


def run_text(text: str, folder: Path) -> int:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    with Shell(folder, {"PATH": "/usr/bin:/bin"}, folder) as shell:
        return run_page(page, shell)


def test_blocks_share_a_shell_and_files_are_there_for_the_next(tmp_path: Path) -> None:
    text = """
```sh
NAME=barn; greet() { echo "hello $1"; }
```
<!-- file: note.txt -->
```text
a note
```
<!-- not run: it never ends -->
```sh
sleep infinity
```
```console
$ greet $NAME
hello barn
$ cat note.txt
a note
```
"""
    assert run_text(text, tmp_path) == 3


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```console\n$ true\n$ (exit 7)\n```", "page.md:3: ended with 7"),
        ("```sh\nfalse\necho later\n```", "page.md:2: ended with 1"),
        ("```console\n$ echo no\nyes\n```", "page.md:2: the output does not have:\nyes"),
        ("```json\n{]\n```", "page.md:2: not json"),
        ("```\necho\n```", "page.md:2: a block without a language is neither run nor excluded"),
    ],
)
def test_what_does_not_do_as_the_page_says_is_named_with_its_line(block: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(PageFailed) as failure:
        run_text(f"{block}\n", tmp_path)
    assert str(failure.value).startswith(why)
