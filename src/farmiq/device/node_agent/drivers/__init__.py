"""Drivers: where values come from. A driver names its channels once, and reads all of them when asked."""
