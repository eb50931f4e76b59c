"""A TCP relay whose links can be made bad on purpose: cut, slow, half-open, broken off.

- In: connections on loopback ports; orders on a Unix socket, one JSON object a line (`protocol`); the routes, in a file that
  the supervisor writes.
- Out: the same bytes in the same order to where each port leads. A close of one direction is carried on as that, a reset as a
  reset. A receiver that is slow makes the sender wait: at most `pipe.QUEUE_BYTES_MAX` and two socket buffers are held for it.
- Promise: what it is told is on disk before it is answered, so a cut stays a cut when the relay is killed and started again. No
  byte is left out of a connection that goes on: one from which bytes have vanished ends with a reset when it is healed, as a
  network never lets a connection go on with a hole in it.
- When a neighbour is away: a server that refuses is answered to the client with a reset.

`faults` says what can be wrong with a route, in the words of Shopify's Toxiproxy. `shaping` decides what becomes of bytes under
these, and when; it knows no socket. `pipe` and `connection` do what it says, `route` listens, `memory` remembers, `control`
takes orders and `client` gives them. `program` is the relay as a child of the supervisor, `__main__` its process.
"""
