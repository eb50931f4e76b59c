-- Dead letters that were taken out of their queue, whole, from the first look until a person has decided. `message` is all that
-- RabbitMQ delivered but the body, `digest` is over both: a letter that is still in its queue because the process died before the
-- acknowledgement is the same letter, also after it was settled. A settled row (replayed or discarded) is kept for that, empty,
-- until DISCARDED_LETTERS_RETENTION_DAYS have passed.
CREATE TABLE dead_letters (
  letter_id  bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue      text        NOT NULL,
  digest     bytea       NOT NULL,
  message    bytea       NOT NULL,
  body       bytea       NOT NULL,
  saved_at   timestamptz NOT NULL DEFAULT now(),
  settled_at timestamptz,
  UNIQUE (queue, digest)
);

CREATE INDEX dead_letters_waiting ON dead_letters (queue, letter_id) WHERE settled_at IS NULL;
CREATE INDEX dead_letters_settled ON dead_letters (settled_at) WHERE settled_at IS NOT NULL;
