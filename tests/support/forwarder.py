"""The environment of an `edge-sync-forwarder` that sends to the scripted cloud."""

from support.scripted_cloud import TOKEN

SERVICE = "edge-sync-forwarder"
ADMIN_TOKEN = "admin-token-of-the-test"


def forwarder_environ(edge_url: str, cloud_url: str, **more: str) -> dict[str, str]:
    return {
        "DATABASE_URL": edge_url,
        "CLOUD_INGESTION_URL": cloud_url,
        "CLOUD_INGESTION_TOKEN": TOKEN,
        "EDGE_CLUSTER_ID": "edge-1",
        "INSTANCE_ID": "replica-1",
        **more,
    }
