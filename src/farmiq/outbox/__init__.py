"""The PostgreSQL outbox: events that have happened here and are on their way to the cloud.

In    `append`: events, inside the transaction that stores what they tell about. Either both are there or neither. An id that
      stands for another event of its tenant is refused there; `add` leaves that to its caller.
Out   `claim` hands a batch of one tenant to one forwarder for the time of a lease; `settle` writes down what became of it.

    pending ──claim──▶ claimed ──settle──▶ acked          the cloud has it
       ▲                  │
       │                  ├──settle───────▶ dlq           refused too often: a person decides (`redrive`)
       ├──────release─────┤                               nobody judged it: no attempt is counted
       └──settle, rescue──┘                               failed: parked until `next_attempt_at`, then `promote`d

A row that the cloud holds, because it belongs to another edge until a person decides, is parked like one that failed, and pays no
attempt. `held` says which there are, and brings all of a device back at once.

A row whose forwarder ended is a suspect. It is claimed alone and marked `sending` on its way from claimed to acked; rescued
from there, it pays an attempt. Rescued from claimed it pays nothing, for nobody knows who of the batch was to blame.

Promises
- A claim is kept as long as it is `renew`ed, and lost when it is not: the forwarder is told, and leaves the row alone.
- Every claim raises the row's `claim_token`. A settlement carries the token it was claimed with, so a forwarder whose
  lease ran out and whose rows were given to another changes nothing.
- A claim costs what its batch costs, however long the backlog: the index holds exactly the claimable rows, in the order
  of the claim, and rows that wait for their next attempt are parked outside it.
- While somebody holds an old snapshot it still does, above the `floors` that earlier claims have reached.
- Time is the database's. Forwarders on machines with wrong clocks agree about every lease.
- Nothing leaves the table unsent, except that `retire` removes acknowledged rows past their retention.

After a crash, between any two of these steps: a row is pending (it is claimed again), or claimed (its lease ends, `rescue`
puts it back, and it is sent again; the cloud knows its id and answers `duplicate`).

The files, in the order of a row's life: `event`, `append`, `announcer` and `wakeup`, `claim`, `floors` (pure), `fencing`,
`renew`, `suspects`, `verdicts` (pure), `settle`, `recovery`, `backlog` (what an operator asks), `unsent` (what the cloud does
not have), `holders` (who has rows in hand), `held`, `redrive`, `resend` (what the cloud had and lost), `retire`.
"""

from farmiq.outbox.announcer import CHANNEL, Announcer
from farmiq.outbox.append import Clash, add, append
from farmiq.outbox.event import Event

__all__ = ["CHANNEL", "Announcer", "Clash", "Event", "add", "append"]
