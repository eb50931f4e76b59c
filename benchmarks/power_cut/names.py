"""Which names stand for which files, as the disk may hold them: what was stored, and every change since."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from power_cut.content import Choose, File, Folder

Node = File | Folder


@dataclass(frozen=True, slots=True)
class _Change:
    """A name that came, or went, or did both in one step."""

    number: int
    node: Node
    gone: Path | None = None
    come: Path | None = None
    replaces: bool = False  # another file of that name; then what the new one holds is stored with the name

    def is_in(self, folder: Path) -> bool:
        return any(path is not None and path.parent == folder for path in (self.gone, self.come))

    def onto(self, names: dict[Path, Node]) -> None:
        if self.gone and names.get(self.gone) is self.node:
            del names[self.gone]
        if self.come:
            names[self.come] = self.node


class Names:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._live: dict[Path, Node] = {root: Folder()}
        self._stored = dict(self._live)
        self._later: list[_Change] = []

    def at(self, path: Path) -> Node | None:
        return self._live.get(path)

    def come(self, number: int, path: Path, node: Node) -> None:
        self._change(_Change(number, node, come=path))

    def go(self, number: int, path: Path) -> None:
        self._change(_Change(number, self._live[path], gone=path))

    def rename(self, number: int, old: Path, new: Path) -> None:
        self._change(_Change(number, self._live[old], gone=old, come=new, replaces=new in self._live))

    def _change(self, change: _Change) -> None:
        change.onto(self._live)
        self._later.append(change)

    def store(self, node: Node, until: int) -> None:
        """A file or folder was synced: its own names are durable now, those above it, and of a folder those in it."""
        path = next((path for path, held in self._live.items() if held is node), None)
        above = {self._live[folder] for folder in path.parents if folder in self._live} if path else set()
        kept: list[_Change] = []
        for change in self._later:
            is_its_own = change.node is node or change.node in above
            is_within = isinstance(node, Folder) and path is not None and change.is_in(path)
            if change.number <= until and (is_its_own or is_within):
                change.onto(self._stored)
                if change.replaces and isinstance(change.node, File):
                    change.node.store(change.number)
            else:
                kept.append(change)
        self._later = kept

    def settle(self) -> None:
        for node in self._live.values():
            if isinstance(node, File):
                node.settle()
        self._stored = dict(self._live)
        self._later = []

    def survivors(self, choose: Choose, written_back: int) -> Iterator[tuple[Path, Node, int]]:
        """Each with the number of the call up to which its changes are stored. Folders come before what is in them.

        What stands in a folder that did not survive is gone with it.
        """
        names = dict(self._stored)
        stored_with_name: dict[Node, int] = {}
        at_least = sum(change.number <= written_back for change in self._later)
        for change in self._later[: at_least + choose(len(self._later) - at_least + 1)]:
            change.onto(names)
            if change.replaces:
                stored_with_name[change.node] = change.number
        there = {self._root}
        for path in sorted(names):
            if path != self._root and path.parent in there:
                there.add(path)
                yield path, names[path], max(written_back, stored_with_name.get(names[path], 0))
