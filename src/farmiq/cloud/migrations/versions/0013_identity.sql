-- Which life of this database is speaking. Every answer to an edge carries it; restoring a backup changes it, and an edge that
-- sees a new one sends again what it had acknowledged since `resend_since`, which is NULL as long as nothing was ever restored.
CREATE TABLE cloud_identity (
  only_row     boolean     NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
  epoch        uuid        NOT NULL DEFAULT gen_random_uuid(),
  began_at     timestamptz NOT NULL DEFAULT now(),
  resend_since timestamptz
);

INSERT INTO cloud_identity DEFAULT VALUES;
