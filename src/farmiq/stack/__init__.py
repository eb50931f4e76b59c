"""The embedded servers and the supervisor behind `farmiq up`.

- In: the commands of `control` (start, read_state, wait_until_healthy, stop, environment), and the variables of `external`
  that name servers to use instead of ours.
- Out: PostgreSQL, Mosquitto, RabbitMQ and SeaweedFS on loopback ports of their own, our services on top of them, and all
  state under one home.
- Promise: a child that dies is started again. `stop` leaves no process behind, also after the supervisor was killed with
  -9: every process of a stack carries its home in its environment, and is found by that. No credential is a default, on a
  command line, or in a file that others can read. Data survives `stop` and any kill.
- When a neighbour is away: a server that does not come up ends the start with its name and its log. A service that does not
  is shown as unhealthy and left to recover.

Start reading at `control`, then `supervisor` (the order of things) and `keeper` (one child's life). `plan` decides what a
stack consists of before anything runs; `postgres`, `mosquitto`, `rabbitmq` and `seaweedfs` each know one server; `provision`
makes what the services need inside them; `processes` finds and ends what belongs to a stack. `relay` stands between the tiers,
so that their links can be cut and healed; `relayed` says which links those are.
"""
