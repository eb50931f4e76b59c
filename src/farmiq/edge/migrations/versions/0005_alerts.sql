-- What a person should look at. One alert for one cause until it is closed, however often the cause is seen: an acknowledged
-- alert is still there. An alert about the edge box itself has no tenant.
CREATE TABLE ops_alerts (
  id           uuid        NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
  tenant_id    text,
  kind         text        NOT NULL,
  subject      text        NOT NULL,
  dedupe_key   text        NOT NULL,
  status       text        NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'acked', 'closed')),
  evidence     jsonb       NOT NULL DEFAULT '{}',
  opened_at    timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz NOT NULL DEFAULT now(),
  acked_at     timestamptz,
  acked_by     text,
  closed_at    timestamptz
);

CREATE UNIQUE INDEX ops_alerts_not_closed ON ops_alerts (tenant_id, dedupe_key) NULLS NOT DISTINCT WHERE status <> 'closed';
CREATE INDEX ops_alerts_opened ON ops_alerts (opened_at DESC);
