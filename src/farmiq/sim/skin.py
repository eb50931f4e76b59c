"""What colour the animal is at each place of its body: its coat, the mud on it, the bare skin of snout and ears."""

import numpy as np
from numpy.typing import NDArray

from farmiq.sim.animals import Pig
from farmiq.sim.coats import Colour
from farmiq.sim.solids import Outline
from farmiq.sim.views import Colours, Plane, cloud

_MUD: Colour = (0.25, 0.18, 0.12)
_TILE = 128


class Skin:
    def __init__(self, pig: Pig, mud: float) -> None:
        self._coat = pig.coat
        rng = np.random.default_rng([pig.seed, 6])
        self._marks = cloud(rng, (_TILE, _TILE), pig.coat.grain)
        self._mud = cloud(rng, (_TILE, _TILE), 11)
        self._hair = cloud(rng, (_TILE, _TILE), 60)
        self._mud_level = np.float32(1.02 - 0.62 * mud)
        self._belt = (np.float32(rng.uniform(0.60, 0.68)), np.float32(rng.uniform(0.78, 0.86)))

    def trunk(self, part: Outline) -> Colours:
        along, side = _place(part)
        colour = _mix(self._coat.ground, self._coat.mark, self._share_of_mark(part, self._marks[along, side]))
        colour *= np.float32(0.93) + np.float32(0.14) * self._hair[along, side]
        soil = self._mud[along, side] + np.float32(0.18) * np.abs(part.side) - self._mud_level
        return _over(colour, _MUD, np.clip(soil * 5, 0, 0.75))

    def head(self, part: Outline) -> Colours:
        colour = _mix(self._coat.ground, self._coat.mark, self._share_of_face(part))
        return _over(colour, self._coat.skin, np.clip((part.along - np.float32(0.86)) * 14, 0, 0.9))

    def ear(self, part: Outline) -> Colours:
        return _mix(self._ends(), self._coat.skin, np.clip(1 - np.abs(part.side), 0, 1) * np.float32(0.55))

    def tail(self, part: Outline) -> Colours:
        return _mix(self._ends(), self._coat.skin, np.full_like(part.along, 0.35))

    def _ends(self) -> Colour:
        return self._coat.mark if self._coat.marking == "points" else self._coat.ground

    def _share_of_mark(self, part: Outline, marks: Plane) -> Plane:
        share = marks
        match self._coat.marking:
            case "patches":
                share = np.clip((marks - np.float32(0.56)) * 12, 0, 1)
            case "belt":
                start, end = self._belt
                edge = part.along + (marks - np.float32(0.5)) * np.float32(0.05)
                share = np.clip(np.minimum(edge - start, end - edge) * 40, 0, 1)
            case "points":
                share = np.clip((np.float32(0.05) - part.along) * 12, 0, 1)
            case "halves":
                border = np.float32(0.48) + part.side * np.float32(0.1) + (marks - np.float32(0.5)) * np.float32(0.15)
                share = np.clip((border - part.along) * 14, 0, 1)
            case "stripes":
                along, across = (np.float32(turns) for turns in self._coat.waves)
                share = np.clip(np.sin(part.along * along + part.side * across + marks * 3) * 2, 0, 1)
            case "flanks":
                begins = np.float32(self._coat.flank) - (marks - np.float32(0.5)) * np.float32(0.3)
                share = np.clip((np.abs(part.side) - begins) * 6, 0, 1)
        return share

    def _share_of_face(self, part: Outline) -> Plane:
        share = np.zeros_like(part.along)
        match self._coat.marking:
            case "points":
                share = np.clip((part.along - np.float32(0.45)) * 4, 0, 1)
            case "patches":
                along, side = _place(part)
                share = np.clip((self._marks[side, along] - np.float32(0.6)) * 9, 0, 1)
        return share


def _place(part: Outline) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    along = np.clip(part.along * (_TILE - 1), 0, _TILE - 1).astype(np.int32)
    side = np.clip((part.side * np.float32(0.3) + np.float32(0.5)) * (_TILE - 1), 0, _TILE - 1).astype(np.int32)
    return along, side


def _mix(first: Colour, second: Colour, share: Plane) -> Colours:
    start, end = _channels(first), _channels(second)
    return start + share * (end - start)


def _over(colours: Colours, colour: Colour, share: Plane) -> Colours:
    colours += share * (_channels(colour) - colours)
    return colours


def _channels(colour: Colour) -> Colours:
    return np.array(colour, np.float32)[:, None, None]
