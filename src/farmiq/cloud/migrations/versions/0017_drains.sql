-- Times in which the cloud takes no events, so that RabbitMQ runs empty and can be replaced. A row without `ended_at` is such a time,
-- for every replica and across restarts; there is one at most.
CREATE TABLE drains (
  drain_id bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  begun_at timestamptz NOT NULL DEFAULT now(),
  begun_by text        NOT NULL,
  ended_at timestamptz,
  ended_by text
);

CREATE UNIQUE INDEX drains_under_way ON drains ((ended_at IS NULL)) WHERE ended_at IS NULL;
