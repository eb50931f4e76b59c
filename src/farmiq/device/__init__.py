"""What runs on a node in the barn: `node-agent` samples, `node-forwarder` keeps and sends.

They are two processes, so that sampling goes on while the other is restarted, and so that only one of them touches the
disk and the network. `handover` is what they say to each other.
"""
