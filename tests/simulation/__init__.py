"""The delivery of samples, from a node's agent to the cloud's database, in one thread and in virtual time.

In:   a seed. It alone decides when samples are taken, how long everything takes, what breaks, and where.
Out:  an `Outcome`: what was accepted, stored and lost, which promises were broken, and every event in order.
Real: the code of all services down to the calls that leave the process, and the spool down to its system calls.
Made: what lies beyond those calls: the network, Mosquitto, PostgreSQL, RabbitMQ, the node's disk, the clocks.

The files, from the ground up: `virtual_loop` (time), `process` (what can be killed or stopped), `chance` (the one source of it),
`machine` (clocks), `database` with the statements in `gateway_tables`, `measurement_tables`, `outbox_tables` and `cloud_tables`,
`broker` (MQTT), `bus` (AMQP), `uplink` (HTTP), `node`, `edge` and `cloud` (the services as their `main` puts them together),
`plan` (what a seed makes of the farm), `faults` (what breaks), `ledger` (what must hold), `world` (one run), `mutations` (faults
in our own code, to see that they are found), `mutator` and `mutants` (such faults made by a tool), `seeds` (runs that once
failed), `results` (what was run so far), `campaign` (many runs), `__main__`.

docs/internals/simulation.md says what is a model and what is not.
"""
