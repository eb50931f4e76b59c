"""`weighvision-agent`: weigh sessions of a camera and a scale, kept on the station's own disk until the edge has them.

In:       weights and pictures, through drivers, as the station file describes them; the clock; the edge's acknowledgements
          on `iot/{device_id}/ack`.
Out:      session events and `weighvision.image.captured` over MQTT, pictures by presigned URL; what had to be given up, as
          `station.loss`; the station's status, over MQTT and in `status.json`.
Promises: a session, a weight or a picture counts from the moment it is committed to the queue, and is in nobody's hands
          before. An event leaves the queue by the edge's acknowledgement of its id and by nothing else; a picture's file when
          the edge says that it has verified it. What limits make it give up is counted and declared, like the data itself.
Away:     MQTT away: sessions go on, pictures are uploaded, events wait. HTTP away: events are sent, pictures wait. An edge
          that has forgotten (restored from a backup) gets again what is still here. A camera or scale that fails or hangs is
          shown and asked again. Killed in the middle of a session: at the next start it is ended with the pictures it has.

The files, in the order of a session's way: `station_file` (what there is; `plugins`: which driver), `drivers/` on threads of
their own (`own_thread`), `scale_watch` with `detection` (weights to changes, pure), `weighing` (a session), `schedule`
(pictures without one), `photographer` and `scaling`; `queue` (one method, one transaction) over `event_store`,
`picture_store` and `database`, with `drops` (what goes first, pure), `losses`, `declaring` and `verification` (what the edge
has), on the thread of `recorder`;
`uploader` with `media_client`; `publisher` with `replay` (order and pace, pure); `listener` with `acks` (who speaks, pure);
beside them `messages`, `faults`, `status`, `settings` and `main`.
"""
