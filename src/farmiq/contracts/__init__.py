"""What travels between the tiers: messages, topics, exchanges, object keys. Pure data; it imports nothing of ours.

What travels where
    device -> edge    MQTT topics (`topics`), `MqttEnvelope` with a device payload
    edge -> device    `DeviceAck` on iot/{device_id}/ack, sent only after the edge database has committed
    edge -> cloud     HTTP: `EdgeBatch` in, `EdgeBatchAnswer` back; inside it `BusEnvelope`s
    cloud bus         RabbitMQ (`bus`), `BusEnvelope` with a bus payload
    station -> media  HTTP: `PresignRequest` in, `PresignAnswer` back; pictures under `object_key(...)`

Every message comes in through `decode` and leaves through `encode` (`decoding`). What is wrong with a message is a
`MalformedMessage` with a stable code, so that it can be kept with its reason while the next one goes on.

Nothing here forbids unknown fields, on purpose. A farm updates months late: an edge of last spring must understand
this year's node, and this year's edge last spring's cloud. A name that we do not know is therefore skipped; a name
that we know must have the right type.

How a message may change
    1. Add a field, always optional, with a default that means "the sender did not know it yet".
    2. Never change the type, the unit or the meaning of a field, and never reuse a name. A new meaning is a new field.
    3. Never add a value to a closed set (a `Literal`): older receivers refuse it. Add a field, or an event type.
    4. Stop reading a field one release before you stop writing it.
    5. What breaks these rules is a new `schema_version` ("2.0"), which this code refuses by name; teach the receivers
       both first, then the senders.
"""
