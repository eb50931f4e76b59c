"""The cloud tier: where every farm's data end up, once.

In: batches of events from edges. Out: events on the bus, and answers to queries.
It promises: an event answered as accepted is on the bus, and one that arrives twice has the effect of one.
"""
