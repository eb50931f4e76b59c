"""An edge that answers what a test wants it to. The server is real, and so is everything on the station's side of it."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Scripted:
    """One answer for whatever is asked, unless `answer_to` has another one; the questions are kept."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, b"", {}  # type: int, bytes, dict[str, str]
        self.is_cut = False
        self.answer_to: Callable[[str, str, bytes], tuple[int, Any]] | None = None
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                script.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                if script.answer_to is not None:
                    script.says(*script.answer_to(self.command, self.path, body))
                if script.is_cut:
                    self.connection.close()
                    return
                self.send_response(script.status)
                for name, value in script.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(script.body)

            do_POST = do_PUT = answer  # noqa: N815 - the library's own names

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def says(self, status: int, body: Any = b"", **headers: str) -> None:
        self.status, self.headers = status, headers
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
