"""A malicious object store: its answers depend on the requested bucket."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SHOUT = "x" * 60_000
_PAGE_HEAD = '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
_OBJECT = (
    "<Contents><Key>{}</Key><Size>1</Size><ETag>&quot;a&quot;</ETag>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        bucket = urlsplit(self.path).path.strip("/").partition("/")[0]
        answer = getattr(self, f"_{bucket}", self._nothing)
        answer()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the tests check Stoker's messages."""

    def _nothing(self) -> None:
        self._send(404, "<Error><Code>NoSuchBucket</Code></Error>")

    def _shout(self) -> None:
        self._send(403, f"<Error><Code>AccessDenied</Code><Message>{SHOUT}</Message></Error>")

    def _endless(self) -> None:
        objects = "".join(_OBJECT.format(f"{threading.get_ident()}-{index}") for index in range(1000))
        self._send(
            200,
            f"{_PAGE_HEAD}<IsTruncated>true</IsTruncated><NextContinuationToken>on</NextContinuationToken>{objects}</ListBucketResult>",
        )

    def _silent(self) -> None:
        self.server.stopped.wait(600)  # type: ignore[attr-defined]

    def _huge(self) -> None:
        """Answer a page of a gigabyte."""
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 30))
        self.end_headers()
        block = b"<Contents>" * 100_000
        for _ in range((1 << 30) // len(block)):
            self.wfile.write(block)

    def _redirect(self) -> None:
        self.send_response(307)
        self.send_header("Location", "http://169.254.169.254/latest/meta-data/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Handler)
        self.stopped = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log no clients that disconnect during an answer: that is the right reaction."""


@contextmanager
def hostile_store(address: str) -> Iterator[str]:
    """Serve on ``address`` until the block ends. Yields the URL."""
    server = _Server(address)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{address}:{server.server_address[1]}"
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
