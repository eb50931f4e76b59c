"""Dead letters: seen, counted, brought back, or thrown away on purpose.

In:       a service's dead-letter queue, and a filter.
Out:      a summary, some letters, or an action on those that match: `replay` puts them back into their service's queue,
          `discard` removes them.
Promises: a letter is taken from its queue once, at the first look, and is in the table `dead_letters` from before that is
          acknowledged: on RabbitMQ 4 a letter that is taken and returned 20 times is dropped. Killed in between, it is in both
          places and counted once. A replayed letter is settled after its queue has confirmed it; killed in between, it is
          replayed again, and whoever stores it recognises the second. A discarded one is in `discarded_letters`, and in the
          loss ledger in the same transaction, with who and why (`losses`).
          Every action has a row in `dead_letter_actions` from before its first letter.
          Any number of letters is gone through with a few in memory. One person at a time acts on a queue.
Away:     RabbitMQ or PostgreSQL away: the action ends with what it had done by then, and says so; again means onwards.

The way of a letter through the files: `collection` (out of the queue) → `saved` (in the database) → `letters` (what is written on
it) → `filters` (is it meant) → `handlers` (replay, discard) → `audit`. `farmiq dlq` and cloud-ingestion's `dead_letter_routes`
are the ways in.
"""
