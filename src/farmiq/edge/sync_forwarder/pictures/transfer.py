"""One picture: asked for, sent, compared."""

from farmiq.edge.sync_forwarder.answers import Away, Refused
from farmiq.edge.sync_forwarder.pictures.cloud import CloudMedia
from farmiq.edge.sync_forwarder.pictures.store import Transfer
from farmiq.edge.sync_forwarder.pictures.upload import Uploader
from farmiq.edge.sync_forwarder.pictures.verdicts import Sent, Verdict


async def send(transfer: Transfer, cloud: CloudMedia, uploader: Uploader) -> Verdict:
    """Repeating it from the start is right after every step: what is there already is not sent again."""
    answer = await cloud.presign(transfer)
    if isinstance(answer, Away | Refused):
        return answer
    if answer.state == "stored":
        return Sent()
    trouble = await uploader.upload(transfer, answer)
    return trouble or await cloud.complete(transfer) or Sent()
