"""The edge tier: what runs in the barn, goes on when the cloud is away, and catches up when it is back.

In: MQTT from devices, pictures by presigned URL. Out: acknowledgements to devices, batches of events to the cloud.
It promises: what is acknowledged is in the edge database, with its event in the outbox, by one commit.
"""
