-- Which edge may send what of a device. A row is written once, by the first edge that registers or delivers, and changed by a person
-- alone (`farmiq device move`).
CREATE TABLE device_owners (
  tenant_id       text        NOT NULL,
  device_id       text        NOT NULL,
  edge_cluster_id text        NOT NULL,
  came_by         text        NOT NULL CHECK (came_by IN ('registration', 'stored_data', 'delivery', 'move')),
  since           timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, device_id)
);

-- Every move, for ever. The edge that had the device may still deliver what occurred before `backlog_before`, until `backlog_until`.
CREATE TABLE device_moves (
  tenant_id      text        NOT NULL,
  device_id      text        NOT NULL,
  moved_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  moved_by       text        NOT NULL,
  from_edge      text,
  to_edge        text        NOT NULL,
  backlog_before timestamptz NOT NULL,
  backlog_until  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, device_id, moved_at)
);

-- The device and the edge of whoever delivered a session first. Sessions of an earlier release are in `weight_sessions` alone.
CREATE TABLE session_owners (
  tenant_id       text        NOT NULL,
  session_id      uuid        NOT NULL,
  device_id       text,
  edge_cluster_id text        NOT NULL,
  first_seen_at   timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, session_id)
);

CREATE INDEX session_owners_first_seen ON session_owners (first_seen_at);

-- What an edge sends of a device that it does not own, for a person. `device_id` is empty when a session's device is not known.
CREATE TABLE held_deliveries (
  tenant_id       text        NOT NULL,
  device_id       text        NOT NULL,
  edge_cluster_id text        NOT NULL,
  owner_edge      text        NOT NULL,
  code            text        NOT NULL,
  first_held_at   timestamptz NOT NULL DEFAULT now(),
  last_held_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, device_id, edge_cluster_id)
) WITH (fillfactor = 70);

-- Every change of `farmiq edge grant` and `ungrant`, for ever.
CREATE TABLE edge_grants (
  tenant_id       text        NOT NULL,
  edge_cluster_id text        NOT NULL,
  changed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  is_granted      boolean     NOT NULL,
  changed_by      text        NOT NULL,
  PRIMARY KEY (tenant_id, edge_cluster_id, changed_at)
);

-- Replicas keep owners in memory for as long as this number stays the same. New rows leave it: nobody remembers that a device has none.
CREATE TABLE device_owners_version (version bigint NOT NULL);
INSERT INTO device_owners_version VALUES (0);

CREATE FUNCTION count_device_owners_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE device_owners_version SET version = version + 1;
  RETURN NULL;
END
$$;

CREATE TRIGGER device_owners_changed AFTER UPDATE OR DELETE OR TRUNCATE ON device_owners
  FOR EACH STATEMENT EXECUTE FUNCTION count_device_owners_change();


-- What is here already belongs to the edge whose data it is. Registrations first, of edges that were upgraded before this cloud.
INSERT INTO device_owners (tenant_id, device_id, edge_cluster_id, came_by, since)
SELECT DISTINCT ON (tenant_id, device_id) tenant_id, device_id, edge_cluster_id, 'registration', received_at
  FROM device_events
 WHERE tenant_id IN (SELECT unnest(tenant_ids) FROM edges) AND event_type = 'edge.device.registered'
   AND device_id IS NOT NULL AND edge_cluster_id IS NOT NULL
 ORDER BY tenant_id, device_id, received_at;

-- From one device to the next through an index. A tenant with one edge leaves no doubt; of a tenant with several, only the rows of
-- `device_events` say which edge sent them. What is left goes to the first edge that delivers.
WITH RECURSIVE
aggregated AS (
  (SELECT tenant_id, device_id FROM telemetry_agg ORDER BY tenant_id, device_id LIMIT 1)
  UNION ALL
  SELECT following.* FROM aggregated AS one CROSS JOIN LATERAL (
    SELECT tenant_id, device_id FROM telemetry_agg
     WHERE (tenant_id, device_id) > (one.tenant_id, one.device_id) ORDER BY tenant_id, device_id LIMIT 1) AS following),
weighing AS (
  (SELECT tenant_id, device_id FROM weight_sessions WHERE device_id IS NOT NULL ORDER BY tenant_id, device_id LIMIT 1)
  UNION ALL
  SELECT following.* FROM weighing AS one CROSS JOIN LATERAL (
    SELECT tenant_id, device_id FROM weight_sessions
     WHERE device_id IS NOT NULL AND (tenant_id, device_id) > (one.tenant_id, one.device_id)
     ORDER BY tenant_id, device_id LIMIT 1) AS following),
reporting AS (
  (SELECT tenant_id, device_id FROM device_events WHERE device_id IS NOT NULL ORDER BY tenant_id, device_id LIMIT 1)
  UNION ALL
  SELECT following.* FROM reporting AS one CROSS JOIN LATERAL (
    SELECT tenant_id, device_id FROM device_events
     WHERE device_id IS NOT NULL AND (tenant_id, device_id) > (one.tenant_id, one.device_id)
     ORDER BY tenant_id, device_id LIMIT 1) AS following),
known AS (SELECT * FROM aggregated UNION SELECT * FROM weighing UNION SELECT * FROM reporting),
only_edge AS (
  SELECT tenant_id, min(edge_cluster_id) AS edge_cluster_id FROM edges CROSS JOIN unnest(tenant_ids) AS tenant_id
   GROUP BY tenant_id HAVING count(*) = 1)
INSERT INTO device_owners (tenant_id, device_id, edge_cluster_id, came_by)
SELECT known.tenant_id, known.device_id, coalesce(only_edge.edge_cluster_id, sender.edge_cluster_id), 'stored_data'
  FROM known LEFT JOIN only_edge USING (tenant_id)
  LEFT JOIN LATERAL (
    SELECT edge_cluster_id FROM device_events AS event
     WHERE only_edge.tenant_id IS NULL AND event.tenant_id = known.tenant_id AND event.device_id = known.device_id
       AND edge_cluster_id IS NOT NULL
     ORDER BY occurred_at LIMIT 1) AS sender ON true
 WHERE coalesce(only_edge.edge_cluster_id, sender.edge_cluster_id) IS NOT NULL
ON CONFLICT DO NOTHING;
