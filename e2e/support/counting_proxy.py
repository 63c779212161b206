"""A proxy before the cluster's S3 server that counts GETs of objects by the status of their answers."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding"})


@dataclass
class CountingProxy:
    """The proxy's address, and the answers to GETs so far: seconds of a monotonic clock, and HTTP status."""

    endpoint: str = ""
    answers: list[tuple[float, int]] = field(default_factory=list)

    def refused(self) -> list[float]:
        """Return the times of GETs that were refused with 401 or 403."""
        return [at for at, status in list(self.answers) if status in (401, 403)]


def _handler(upstream: str, proxy: CountingProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            link = http.client.HTTPConnection(upstream, timeout=60)
            try:
                link.request(self.command, self.path, headers=dict(self.headers.items()))
                answer = link.getresponse()
                body = answer.read()
            finally:
                link.close()
            if self.command == "GET" and urlsplit(self.path).path.count("/") > 1:
                proxy.answers.append((time.monotonic(), answer.status))
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_A_CONNECTION:
                    self.send_header(name, value)
            if answer.getheader("Content-Length") is None:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: the stories check Stoker's messages."""

    return Handler


@contextmanager
def counting_proxy(endpoint: str) -> Iterator[CountingProxy]:
    """Run a proxy before the server at ``endpoint``, on the same address."""
    upstream, proxy = urlsplit(endpoint), CountingProxy()
    assert upstream.hostname is not None
    server = ThreadingHTTPServer((upstream.hostname, 0), _handler(upstream.netloc, proxy))
    server.daemon_threads = True
    proxy.endpoint = f"http://{upstream.hostname}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
