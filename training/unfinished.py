"""A run that was stopped goes on where it was: what it had learned by then lies in a file beside the pictures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PARTS = 5  # of the state that `fitting` passes from step to step, each a dictionary of arrays


@dataclass(frozen=True)
class Unfinished:
    """`name` says which run it is: one with other numbers begins from nothing."""

    path: Path
    name: str

    def read(self) -> tuple[Any, int] | None:
        if not self.path.exists():
            return None
        with np.load(self.path) as kept:
            if str(kept["name"]) != self.name:
                return None
            state: tuple[dict[str, Any], ...] = tuple({} for _ in range(PARTS))
            for key in kept.files:
                place, _, array = key.partition("/")
                if array:
                    state[int(place)][array] = kept[key]
            print(f"goes on after step {int(kept['done'])}, from {self.path}", flush=True)
            return state, int(kept["done"])

    def keep(self, state: Any, done: int) -> None:
        arrays: dict[str, Any] = {
            f"{place}/{name}": np.asarray(value) for place, part in enumerate(state) for name, value in part.items()
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half_written = self.path.with_suffix(".part.npz")
        np.savez(half_written, name=np.array(self.name), done=np.array(done), **arrays)
        half_written.replace(self.path)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)
