"""Drivers: where values come from.

A driver reads the channels of one device. It is a plug-in: a `Plugin` that some installed package names in its entry points,
group `farmiq.drivers`; ours are in this folder and are found the same way.

    simulated   a barn that follows the sun
    hwmon       chips that Linux shows in /sys/class/hwmon
    one_wire    thermometers on a 1-Wire bus
    modbus      registers behind a Modbus TCP gateway
    command     any program that prints numbers

`plugin` says what a driver is. The other files are shared by drivers: `own_threads` (reads that may hang in the kernel),
`child` and `program_lines` (a program that may hang, or flood), `registers` (Modbus registers to numbers, pure).
"""

from farmiq.device.node_agent.drivers.plugin import Channel, Device, Driver, Fault, Pace, Plugin, Reading

__all__ = ["Channel", "Device", "Driver", "Fault", "Pace", "Plugin", "Reading"]
