-- People and programs that read. A name may have several tokens, so that a new one can be given out before the old one ends;
-- each says for itself which tenants it reads. Of a token only the SHA-256 is here, as of an edge's.
CREATE TABLE viewer_tokens (
  token_id     text        PRIMARY KEY CHECK (token_id ~ '^[0-9a-f]{12,16}$'),
  viewer       text        NOT NULL CHECK (viewer ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  tenant_ids   text[]      NOT NULL CHECK (cardinality(tenant_ids) > 0),
  token_hash   bytea       NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
  created_at   timestamptz NOT NULL DEFAULT now(),
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz
);

CREATE INDEX viewer_tokens_viewer ON viewer_tokens (viewer, created_at);
