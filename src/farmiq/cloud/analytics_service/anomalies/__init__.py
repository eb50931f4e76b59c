"""What is not as it should be on a barn's day. Each file knows one way to look, and every one is a pure function.

In:       a window of hours (the day and the days before it), the series in it, the day's sessions, and limits.
Out:      `Anomaly`: what kind, how bad, since when until when, a sentence for a person, and the rows that show it, each with
          the limits it crossed.
Promises: at most one of a kind for each subject and day, so that computing the day again updates it and never doubles it.

- `unusual.py`  a value that this hour of the day does not have
- `flat.py`     a sensor that has stopped moving
- `dropout.py`  hours without a sample where there should be some: of a series, of a whole device, of the whole barn
- `drift.py`    a sensor that slowly leaves the others of its kind
- `weighed.py`  weights off the batch's line, jumps that no animal makes, camera and scale that disagree
"""
