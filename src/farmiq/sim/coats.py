"""The colours of a pig's skin: a ground colour, and where another colour lies over it."""

from dataclasses import dataclass
from typing import Literal

Colour = tuple[float, float, float]  # red, green, blue, each 0 to 1
Marking = Literal["plain", "patches", "belt", "points", "stripes", "flanks"]


@dataclass(frozen=True)
class Coat:
    name: str
    ground: Colour
    mark: Colour
    marking: Marking = "plain"
    skin: Colour = (0.86, 0.60, 0.55)  # where the hair is thin: snout, inside of the ears


WHITE = Coat("white", ground=(0.90, 0.74, 0.68), mark=(0.86, 0.66, 0.60))
BLACK = Coat("black", ground=(0.17, 0.155, 0.16), mark=(0.22, 0.20, 0.20), skin=(0.36, 0.29, 0.29))
SPOTTED = Coat("spotted", ground=(0.87, 0.72, 0.66), mark=(0.19, 0.17, 0.17), marking="patches")
SADDLED = Coat(
    "saddled", ground=(0.21, 0.185, 0.18), mark=(0.85, 0.70, 0.64), marking="patches", skin=(0.5, 0.38, 0.36)
)
GINGER = Coat("ginger", ground=(0.71, 0.50, 0.31), mark=(0.62, 0.42, 0.26), skin=(0.70, 0.50, 0.43))
BELTED = Coat("belted", ground=(0.16, 0.15, 0.155), mark=(0.87, 0.75, 0.70), marking="belt", skin=(0.42, 0.33, 0.33))
BLUE = Coat("blue", ground=(0.49, 0.475, 0.49), mark=(0.31, 0.30, 0.32), marking="patches", skin=(0.55, 0.45, 0.45))
RED = Coat("red", ground=(0.47, 0.27, 0.17), mark=(0.38, 0.21, 0.13), skin=(0.52, 0.33, 0.28))
POINTED = Coat("pointed", ground=(0.80, 0.70, 0.60), mark=(0.20, 0.17, 0.16), marking="points", skin=(0.4, 0.31, 0.3))

# Not on the simulated farm: kept back so that a model can be measured on animals of a kind that nothing was tuned on.
STRIPED = Coat("striped", ground=(0.60, 0.44, 0.28), mark=(0.27, 0.19, 0.13), marking="stripes", skin=(0.55, 0.4, 0.34))
SWALLOW = Coat("swallow", ground=(0.29, 0.26, 0.25), mark=(0.74, 0.65, 0.55), marking="flanks", skin=(0.38, 0.3, 0.3))

COATS = (WHITE, BLACK, SPOTTED, SADDLED, GINGER, BELTED, BLUE, RED, POINTED)
