-- What was said of a session, beside what follows from it. initial_weight_kg, final_weight_kg, status, image_count and
-- inference_result_id are what holds now; the columns below are the words that they follow from, so that a word which comes late
-- or out of order is weighed against the others and not against the time of its arrival.
-- created_at: when the edge first heard of the session, in whatever form. last_heard_at, ended_heard_at: of it last, of its end.
-- ended_*: the station's finalized or cancelled. ruled_*: an operator's finalize, which stands in for it.
-- told_*: how the end was last told to the cloud: in whose words, what in short, for which time.
-- look_at: when the service looks at the session next. Set to now by whoever adds something; empty while nothing can change.
ALTER TABLE weight_sessions
  ADD COLUMN created_event_id        uuid,
  ADD COLUMN given_initial_weight_kg double precision,
  ADD COLUMN ended_event_id          uuid,
  ADD COLUMN ended_reason            text,
  ADD COLUMN given_final_weight_kg   double precision,
  ADD COLUMN ruled_id                uuid,
  ADD COLUMN ruled_at                timestamptz,
  ADD COLUMN ruled_reason            text,
  ADD COLUMN ruled_image_count       integer     CHECK (ruled_image_count >= 0),
  ADD COLUMN ruled_final_weight_kg   double precision,
  ADD COLUMN last_heard_at           timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN ended_heard_at          timestamptz,
  ADD COLUMN told_event_id           uuid,
  ADD COLUMN told_digest             text,
  ADD COLUMN told_revision           integer     NOT NULL DEFAULT 0 CHECK (told_revision >= 0),
  ADD COLUMN look_at                 timestamptz DEFAULT now(),
  -- The order in which people are shown sessions: one whose beginning nobody has told stands where it was first heard of.
  ADD COLUMN begun_at                timestamptz NOT NULL GENERATED ALWAYS AS (coalesce(start_at, created_at)) STORED;

CREATE INDEX weight_sessions_to_look_at ON weight_sessions (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX weight_sessions_tenant_begun ON weight_sessions (tenant_id, begun_at DESC, id DESC);
CREATE INDEX weight_sessions_incomplete ON weight_sessions (tenant_id, begun_at DESC, id DESC)
  WHERE incomplete_since IS NOT NULL;
CREATE INDEX weight_sessions_closed ON weight_sessions (updated_at) WHERE status <> 'created' AND look_at IS NULL;


CREATE TABLE session_weights (
  session_id  uuid             NOT NULL REFERENCES weight_sessions ON DELETE CASCADE,
  event_id    uuid             NOT NULL,
  occurred_at timestamptz      NOT NULL,
  weight_kg   double precision NOT NULL,
  received_at timestamptz      NOT NULL DEFAULT now(),
  PRIMARY KEY (session_id, event_id)
);

CREATE INDEX session_weights_in_order ON session_weights (session_id, occurred_at, event_id);


-- Which pictures a session has. The pictures themselves, and what became of their bytes, are in media_objects.
-- announced_*: the station said over MQTT that it took it. attached_at: an operator put it here.
CREATE TABLE session_pictures (
  session_id         uuid        NOT NULL REFERENCES weight_sessions ON DELETE CASCADE,
  media_id           uuid        NOT NULL,
  announced_at       timestamptz,
  announced_event_id uuid,
  attached_at        timestamptz,
  stored_at          timestamptz,
  PRIMARY KEY (session_id, media_id)
);

CREATE INDEX session_pictures_media ON session_pictures (media_id);


-- What models said of pictures and sessions. A picture may find its session only later, so its results wait here for it.
CREATE TABLE session_results (
  id                  uuid             PRIMARY KEY,
  tenant_id           text             NOT NULL,
  session_id          uuid,
  media_id            uuid,
  predicted_weight_kg double precision NOT NULL,
  confidence          double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
  model_version       text             NOT NULL,
  model_generation    integer          NOT NULL DEFAULT 0,
  occurred_at         timestamptz      NOT NULL,
  received_at         timestamptz      NOT NULL DEFAULT now(),
  CHECK (num_nonnulls(session_id, media_id) > 0)
);

CREATE INDEX session_results_session ON session_results (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX session_results_media ON session_results (media_id) WHERE media_id IS NOT NULL;
CREATE INDEX session_results_received ON session_results (received_at);


-- What people did to sessions, and why.
CREATE TABLE session_operations (
  id         uuid        PRIMARY KEY,
  session_id uuid        NOT NULL REFERENCES weight_sessions ON DELETE CASCADE,
  action     text        NOT NULL CHECK (action IN ('attach', 'finalize')),
  media_id   uuid,
  reason     text,
  trace_id   text,
  done_at    timestamptz NOT NULL
);

CREATE INDEX session_operations_session ON session_operations (session_id, done_at);
