-- Programs of others that read one tenant's events from RabbitMQ. Events of a tenant that stands here are copied to
-- farmiq.tenants.exchange; the login and the queue are the broker's own. No password is kept.
CREATE TABLE bus_users (
  name       text        PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  tenant_id  text        NOT NULL CHECK (tenant_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  created_at timestamptz NOT NULL DEFAULT now()
);
