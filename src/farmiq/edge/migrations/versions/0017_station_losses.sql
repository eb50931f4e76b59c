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
