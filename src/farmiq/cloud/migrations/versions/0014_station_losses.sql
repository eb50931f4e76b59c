-- What weigh stations gave up. Beside the losses of streams, and like them for ever: an event of a station has no sequence.
-- dropped_at: by the station's clock, the same at both tiers. recorded_at: when this tier wrote it down.
CREATE TABLE station_losses (
  tenant_id      text        NOT NULL,
  event_id       uuid        NOT NULL,
  farm_id        text,
  barn_id        text,
  device_id      text        NOT NULL,
  reason         text        NOT NULL,
  count          bigint      NOT NULL CHECK (count >= 0),
  pictures       bigint      NOT NULL CHECK (pictures >= 0),
  is_count_exact boolean     NOT NULL,
  first_ts       timestamptz,
  last_ts        timestamptz,
  dropped_at     timestamptz NOT NULL,
  recorded_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, event_id)
);

CREATE INDEX station_losses_tenant_dropped ON station_losses (tenant_id, dropped_at DESC, event_id DESC);
CREATE INDEX station_losses_tenant_recorded ON station_losses (tenant_id, recorded_at);

-- Those that came before this table was there. A payload may hold anything: what is not a number of a believable size is none.
INSERT INTO station_losses
       (tenant_id, event_id, farm_id, barn_id, device_id, reason, count, pictures, is_count_exact, dropped_at, recorded_at)
SELECT tenant_id, event_id, farm_id, barn_id, coalesce(device_id, ''),
       CASE WHEN payload ->> 'reason' ~ '^[a-z_]{1,40}$' THEN payload ->> 'reason' ELSE 'not_readable' END,
       CASE WHEN payload ->> 'count' ~ '^[0-9]{1,12}$' THEN (payload ->> 'count')::bigint ELSE 0 END,
       CASE WHEN payload ->> 'pictures' ~ '^[0-9]{1,12}$' THEN (payload ->> 'pictures')::bigint ELSE 0 END,
       coalesce(payload ->> 'count' ~ '^[0-9]{1,12}$', false) AND coalesce(payload ->> 'is_count_exact', 'true') = 'true',
       occurred_at, received_at
  FROM device_events WHERE event_type = 'station.loss'
    ON CONFLICT DO NOTHING;
