"""Whether a reading is a sample."""

import math

from farmiq.device.node_agent.drivers import Channel, Fault, Reading


def judged(channel: Channel, reading: Reading) -> Reading:
    """In the channel's unit and inside its limits, or what is wrong with it."""
    if reading is None or isinstance(reading, Fault):
        return reading
    try:
        value = float(reading) * channel.scale + channel.offset
    except (TypeError, ValueError, OverflowError) as error:  # a plug-in may answer anything
        return Fault(f"answered {str(reading)[:80]!r}: {error}")
    if not math.isfinite(value):
        return Fault(f"answered {value}, which is not a number")
    if channel.min is not None and value < channel.min:
        return Fault(f"{value:g} {channel.unit} is below the limit of {channel.min:g}")
    if channel.max is not None and value > channel.max:
        return Fault(f"{value:g} {channel.unit} is above the limit of {channel.max:g}")
    return value
