"""The animal as layers of colour, cover and height, from the tail to the ears."""

import math
from dataclasses import dataclass

import numpy as np

from farmiq.sim.animals import Body, Pig, Pose
from farmiq.sim.scenes import Light
from farmiq.sim.skin import Skin
from farmiq.sim.solids import Outline, Spine, Table, look_up, outline, profile, rounded
from farmiq.sim.views import Box, Colours, Plane, View

_BACK = rounded(profile([(0, 0.72), (0.15, 0.92), (0.45, 1.0), (0.7, 1.02), (0.84, 0.93), (1, 0.62)]), 0.16, 0.16)
_HEAD = rounded(
    profile([(0, 1.06), (0.2, 1.02), (0.42, 0.88), (0.62, 0.64), (0.8, 0.50), (0.94, 0.47), (1, 0.45)]), 0.10, 0.07
)
_EAR = rounded(profile([(0, 0.55), (0.3, 1.0), (0.55, 0.92), (0.8, 0.5), (1, 0.0)]), 0.25, 0.1)
_TAIL = rounded(profile([(0, 0.75), (0.5, 1.0), (1, 0.6)]), 0.05, 0.05)


@dataclass(frozen=True)
class Figure:
    box: Box
    colours: Colours
    cover: Plane  # 0 to 1
    height_m: float  # of the plane that its outline lies in


def figure(view: View, pig: Pig, body: Body, pose: Pose, light: Light, mud: float) -> Figure | None:
    """None when the animal is out of sight."""
    height_m = _outline_height_m(body)
    box = view.box_around(pose.x_m, pose.y_m, height_m, _reach(body, pose))
    if box is None:
        return None
    x, y = view.at(height_m, box)
    pixel_m = (view.height_m - height_m) / view.height_m / view.pixels_per_metre
    drawing = _Drawing(x, y, pixel_m, light)
    spine = Spine(
        pose.x_m, pose.y_m, math.radians(pose.heading_degrees), body.length_m, math.radians(pose.bend_degrees)
    )
    skin = Skin(pig, mud)
    head = _head_spine(spine, body, pose)
    _tail(drawing, spine, body, pig, skin)
    _head(drawing, head, body, skin)
    _trunk(drawing, spine, body, pig, skin)
    _ears(drawing, head, body, pig, skin)
    return Figure(box, drawing.colours, drawing.cover, height_m)


class _Drawing:
    """What has been drawn so far; each part lies over the ones before it."""

    def __init__(self, x: Plane, y: Plane, pixel_m: float, light: Light) -> None:
        self._x, self._y = x, y
        self._pixel_m, self._light = pixel_m, light
        self.colours = np.zeros((3, *x.shape), np.float32)
        self.cover = np.zeros_like(x)

    def outline(self, spine: Spine, half_width_m: Table) -> tuple[tuple[slice, slice], Outline] | None:
        """Worked out only where the part can be."""
        reach = np.float32(spine.length_m / 2 + half_width_m.max())
        near = (np.abs(self._x - np.float32(spine.x_m)) < reach) & (np.abs(self._y - np.float32(spine.y_m)) < reach)
        rows, columns = np.flatnonzero(near.any(axis=1)), np.flatnonzero(near.any(axis=0))
        if not len(rows):
            return None
        place = (slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1))
        if min(near[place].shape) < 2:
            return None
        return place, outline(self._x[place], self._y[place], spine, half_width_m)

    def add(self, place: tuple[slice, slice], part: Outline, rise_m: Plane, colour: Colours) -> None:
        alpha = np.clip(part.inside_m * np.float32(1 / self._pixel_m) + np.float32(0.5), 0, 1)
        colour *= _shade(rise_m, self._pixel_m, self._light)
        under = self.colours[:, *place]
        colour -= under
        colour *= alpha
        under += colour
        np.maximum(self.cover[place], alpha, out=self.cover[place])


def _outline_height_m(body: Body) -> float:
    """Where a trunk is widest, and so where its outline lies."""
    return body.back_height_m - body.depth_m * 0.55


def _pixel_m(view: View, height_m: float) -> float:
    return (view.height_m - height_m) / view.height_m / view.pixels_per_metre


def _spine(body: Body, pose: Pose) -> Spine:
    heading, bend = math.radians(pose.heading_degrees), math.radians(pose.bend_degrees)
    return Spine(pose.x_m, pose.y_m, heading, body.length_m, bend)


def _trunk_half_widths(body: Body, pig: Pig) -> Table:
    ham, shoulder = 2.0 - pig.shoulder, pig.shoulder
    behind = [(0.0, 0.74), (0.08, 0.90 * ham), (0.2, 0.985 * ham), (0.42, 0.93)]
    ahead = [(0.6, 0.95), (0.76, 0.985 * shoulder), (0.88, 0.85 * shoulder), (1.0, 0.60)]
    return rounded(profile(behind + ahead), 0.09, 0.10) * np.float32(body.width_m / 2)


def _reach(body: Body, pose: Pose) -> tuple[float, float]:
    """Half of the room that the animal can take up, bent and with its head turned."""
    ahead = body.length_m * 0.56 + body.head_length_m * 1.2
    aside = body.width_m * 0.6 + body.length_m * abs(math.radians(pose.bend_degrees)) * 0.25 + body.head_length_m * 0.9
    cos, sin = abs(math.cos(math.radians(pose.heading_degrees))), abs(math.sin(math.radians(pose.heading_degrees)))
    return ahead * cos + aside * sin, ahead * sin + aside * cos


def trunk_cover(view: View, pig: Pig, body: Body, pose: Pose) -> Plane:
    """Where the trunk alone is, without head, ears and tail: 0 to 1 for each pixel of the picture."""
    height_m = _outline_height_m(body)
    x, y = view.at(height_m)
    part = outline(x, y, _spine(body, pose), _trunk_half_widths(body, pig))
    cover: Plane = np.clip(part.inside_m * np.float32(1 / _pixel_m(view, height_m)) + np.float32(0.5), 0, 1)
    return cover


def _trunk(drawing: _Drawing, spine: Spine, body: Body, pig: Pig, skin: Skin) -> None:
    found = drawing.outline(spine, _trunk_half_widths(body, pig))
    if found is None:
        return
    place, part = found
    rise = look_up(_BACK, part.along) * _dome(part.side, 2.3) * np.float32(body.depth_m / 2)
    colour = skin.trunk(part)
    # The line of the backbone is a little darker, between two muscles that catch the light.
    furrow = np.exp(-((part.side * 9) ** 2)) * np.clip(1 - np.abs(part.along - np.float32(0.45)) * 2.1, 0, 1)
    colour *= 1 - np.float32(0.10) * furrow
    drawing.add(place, part, rise, colour)


def _head_spine(spine: Spine, body: Body, pose: Pose) -> Spine:
    # A lowered head points at the floor and looks short from above.
    length = body.head_length_m * (1.22 - 0.34 * pose.head_lowered)
    x, y, heading = spine.end(0.955)
    heading += math.radians(pose.head_yaw_degrees) * 0.75
    ahead = length * 0.40
    return Spine(x + ahead * math.cos(heading), y + ahead * math.sin(heading), heading, length)


def _head(drawing: _Drawing, head: Spine, body: Body, skin: Skin) -> None:
    found = drawing.outline(head, _HEAD * np.float32(body.head_width_m / 2))
    if found is None:
        return
    place, part = found
    slope = np.float32(1.0) - np.float32(0.35) * np.clip(part.along, 0, 1)
    rise = slope * _dome(part.side, 2.0) * np.float32(body.head_width_m * 0.5)
    drawing.add(place, part, rise, skin.head(part))


def _ears(drawing: _Drawing, head: Spine, body: Body, pig: Pig, skin: Skin) -> None:
    length = body.head_length_m * 0.56 * pig.ear
    splay = math.radians(30 + 42 * pig.ear_droop)
    for sign in (-1.0, 1.0):
        x, y, heading = head.end(0.32, aside_m=sign * body.head_width_m * 0.36)
        heading += sign * splay
        middle = length * 0.42
        x, y = x + middle * math.cos(heading), y + middle * math.sin(heading)
        spine = Spine(x, y, heading, length, -sign * 0.5 * pig.ear_droop)
        found = drawing.outline(spine, _EAR * np.float32(length * 0.30))
        if found is None:
            continue
        place, part = found
        rise = _dome(part.side, 2.0) * (1 - np.float32(0.5) * np.clip(part.along, 0, 1)) * np.float32(length * 0.16)
        drawing.add(place, part, rise, skin.ear(part))


def _tail(drawing: _Drawing, trunk: Spine, body: Body, pig: Pig, skin: Skin) -> None:
    x, y, heading = trunk.end(0.02)
    side = 1.0 if pig.seed % 2 else -1.0
    curl = side * 4.4 * pig.tail_curl
    # An arc is placed by its middle; this one begins at the rump.
    arc = Spine(0.0, 0.0, heading + math.pi + side * 0.5 + curl / 2, body.length_m * 0.17, curl)
    start_x, start_y, _ = arc.end(0.0)
    spine = Spine(x - start_x, y - start_y, arc.heading, arc.length_m, curl)
    found = drawing.outline(spine, _TAIL * np.float32(body.width_m * 0.035))
    if found is None:
        return
    place, part = found
    drawing.add(place, part, _dome(part.side, 2.0) * np.float32(body.width_m * 0.03), skin.tail(part))


def _dome(side: Plane, power: float) -> Plane:
    return np.sqrt(1 - np.minimum(np.abs(side), 1) ** np.float32(power))


def _shade(rise_m: Plane, pixel_m: float, light: Light) -> Plane:
    """Light from the lamp on the slope of the skin, and light from everywhere that reaches a steep flank less."""
    slope_y, slope_x = np.gradient(rise_m, np.float32(pixel_m))
    azimuth, elevation = math.radians(light.azimuth_degrees), math.radians(light.elevation_degrees)
    level, up = math.cos(elevation), math.sin(elevation)
    upright = 1 / np.sqrt(1 + slope_x**2 + slope_y**2)
    facing = up - slope_x * np.float32(level * math.cos(azimuth)) - slope_y * np.float32(level * math.sin(azimuth))
    direct = np.maximum(facing, 0) * upright * np.float32((1 - light.ambient) / max(up, 0.5))
    shade: Plane = direct + np.float32(light.ambient) * (np.float32(0.45) + np.float32(0.55) * upright)
    return shade
