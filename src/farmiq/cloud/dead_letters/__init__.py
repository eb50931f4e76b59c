"""Dead letters: seen, counted, brought back, or thrown away on purpose.

In:       a service's dead-letter queue, and a filter.
Out:      a summary, some letters, or an action on those that match: `replay` puts them back into their service's queue,
          `discard` removes them.
Promises: nothing leaves a dead-letter queue before another place has it. A replayed letter is acknowledged after its queue has
          confirmed it; a discarded one after it is in `discarded_letters`. Killed in between, it is in both, and whoever stores
          it recognises the second. Every action has a row in `dead_letter_actions` from before its first letter.
          A queue of any length is gone through with a few letters in memory. One person at a time goes through a queue.
Away:     RabbitMQ or PostgreSQL away: the action ends with what it had done by then, and says so; again means onwards.

The way of a letter through the files: `walk` (one pass over the queue) → `letters` (what is written on it) → `filters` (is it
meant) → `handlers` (replay, discard) → `audit`. `farmiq dlq` and cloud-ingestion's `dead_letter_routes` are the ways in.
"""
