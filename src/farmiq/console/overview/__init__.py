"""What the first page shows, decided apart from asking for it.

`survey` asks the services, seldom enough to cost them nothing, for `figures`. `situation` puts these together with the
pulse. From there on everything is pure: `completeness` (how much of a day is in the cloud), `sentence` (that in words, and
what to do), `flow` (what moves and what waits at each hop), `picture` (the same, drawn), `throughput` (two lines that
should be one), `delay` (how long samples take), `runway` (how long the disks last).
"""
