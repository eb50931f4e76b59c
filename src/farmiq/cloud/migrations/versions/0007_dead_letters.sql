-- What people did with dead letters. A row is written before anything is touched, and counts as it goes: one without
-- `finished_at` is under way, or was cut short.
CREATE TABLE dead_letter_actions (
  action_id   uuid        PRIMARY KEY,
  kind        text        NOT NULL CHECK (kind IN ('replay', 'discard')),
  service     text        NOT NULL,
  queue       text        NOT NULL,
  asked_by    text        NOT NULL,
  asked_over  text        NOT NULL CHECK (asked_over IN ('cli', 'api')),
  trace_id    text,
  filter      jsonb       NOT NULL,
  is_dry_run  boolean     NOT NULL,
  asked_at    timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  seen        bigint      NOT NULL DEFAULT 0,
  matched     bigint      NOT NULL DEFAULT 0,
  done        bigint      NOT NULL DEFAULT 0,
  failed      bigint      NOT NULL DEFAULT 0,
  error       text
);

CREATE INDEX dead_letter_actions_asked ON dead_letter_actions (asked_at DESC, action_id);

-- What was discarded, whole, until DISCARDED_LETTERS_RETENTION_DAYS have passed. A message that was discarded while the process
-- died is here twice: better so than not at all. Headers are `json` and not `jsonb`, which refuses some characters.
CREATE TABLE discarded_letters (
  discard_id   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  action_id    uuid        NOT NULL REFERENCES dead_letter_actions,
  message_id   text,
  reason       text        NOT NULL,
  event_type   text        NOT NULL,
  tenant_id    text,
  exchange     text        NOT NULL,
  routing_key  text        NOT NULL,
  headers      json        NOT NULL,
  body         bytea       NOT NULL,
  discarded_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX discarded_letters_discarded ON discarded_letters (discarded_at);
CREATE INDEX discarded_letters_action ON discarded_letters (action_id);
