"""`node-forwarder`: keeps every sample on its own disk until the edge has it in its database.

In:       samples from `node-agent` over a Unix socket; the edge's acknowledgements on `iot/{device_id}/ack`.
Out:      the segment spool (`farmiq.spool`); batches, losses and status over MQTT; `status.json` in the spool folder.
Promises: the agent is told "stored" only after the sync. Nothing is deleted by anything but the edge's acknowledgement;
          what the cap makes it give up is a loss record, which travels to the edge like the samples do.
Away:     broker or edge away: goes on storing, and replays in the order of capture when they are back, live samples first.
          An edge that has forgotten (restored from a backup) is believed, and gets again what is still here.
          Disk full or failing: the agent keeps its samples and is told why.

The files, in the order of a sample's way: `intake` (the socket), `recorder` (the spool on a thread of its own), `lanes`
(what to send next, pure), `batches` (frames to messages, pure), `publisher` with `throttle` and `window` (how fast, how much
at once; pure), `listener` with `acks` (what an acknowledgement means, pure), `status` with `pace` (forecasts, pure); beside them
`settings` and `main`.
"""
