"""`edge-ingress-gateway`: the only MQTT consumer, where at-least-once becomes exactly-once.

In:       every device message on `iot/telemetry/#`, `iot/event/#`, `iot/weighvision/#` and `iot/status/#`: a persistent session
          and a shared subscription, so several replicas work side by side.
Out:      one transaction per micro-batch: `ingress_dedupe`, the owners' rows through their `intake`, `sync_outbox`,
          `ingress_rejected`; after the commit the broker's PUBACK and the device's `iot/{device_id}/ack`. Events of types that
          have no owner here go to the cloud as they are.
Promises: nothing is acknowledged before it is committed. A message delivered twice counts once, and an event id that comes
          back with something else in it is refused instead. A bad message is kept with its reason and costs only itself.
          Who a device is comes from the topic that its credential may write to.
Away:     PostgreSQL away: stops acknowledging, keeps the session, tries again until it is back; the broker holds what
          comes meanwhile, and the devices hold everything. Broker away: reconnects by itself; acknowledgements for
          devices wait in memory, and a device that misses one sends again and is told again.

The files, in the order of a message's way: `consumer`, `quotas` and `limited` (pure: who sends too much), `screening` and
`integrator_events` (pure), `handlers` (the transaction), `routing` (to the owners), `station_losses` and `put_off` (what a
person is told), `store`, `acknowledgements` (pure), `publisher`; beside it `devices` (who may speak), `register` (the same, read
page by page), `issuing`, `paste` and `broker_logins` (a device's secrets, and who is told what), `api`, `device_routes`,
`counters`, `cleanup` and `jobs` (what need not be remembered), `settings`, `main`.
"""
