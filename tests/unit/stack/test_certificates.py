"""The certificates between the parts of one server, as clients of every age look at them."""

import ssl
from pathlib import Path

from farmiq.stack.certificates import write_certificates


def shake_hands(client: ssl.SSLObject, server: ssl.SSLObject) -> None:
    """In memory, until both are done; raises what either of them refuses."""
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.version() is not None


def test_a_client_that_checks_strictly_takes_them(tmp_path: Path) -> None:
    """As Python 3.13 and later do by default."""
    write_certificates(tmp_path, "object store")
    paths = {name: str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem")}
    ours, theirs = ssl.create_default_context(cafile=paths["ca.pem"]), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.check_hostname = False
    for context in (ours, theirs):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(paths["ca.pem"])
        context.load_cert_chain(paths["cert.pem"], paths["key.pem"])
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = ours.wrap_bio(to_client, to_server), theirs.wrap_bio(to_server, to_client, server_side=True)
    shake_hands(client, server)
    assert client.getpeercert() is not None
    assert server.getpeercert() is not None
