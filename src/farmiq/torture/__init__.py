"""Faults on purpose, against a whole farm of real processes, with a judge that stands outside it.

- In: a seed, a length and a number of faults (`farmiq torture`).
- Out: a verdict: how many faults, what was accepted, and of that what is stored, lost, duplicated, altered or never sent.
- Promise: the plan of faults follows from the seed alone. What counts as accepted is only what the system itself acknowledged
  to a generator (`Stored` of a forwarder, the edge's word on `iot/{device_id}/ack`), written to a ledger on disk that nothing of
  the farm can reach. A campaign passes only when every accepted thing is at both tiers exactly once and as it was sent, or
  inside a declared loss.
- When a neighbour is away: that is what it is for. The campaign itself needs only its own folder, and ends what it started.

Start reading at `campaign` (the order of things). `plan` decides the faults before anything runs, `inflicting` carries one out
and undoes it; `generators` is the process that feeds the farm and writes the `ledger`; `holdings` reads what a tier has,
`judge` and `judge_weighings` compare the two; `recovery` looks whether the farm came back by itself.
"""
