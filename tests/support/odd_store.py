"""An S3 server on loopback that accepts any key. A test sets its listings, refusals and encodings."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

_ROW = (
    "<Contents><Key>{}</Key><LastModified>2026-01-02T03:04:05Z</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>"
)
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class Asked:
    """A request. ``key`` is empty for a listing, whose page is ``token``."""

    method: str
    key: str
    token: str = ""


@dataclass
class OddStore:
    """The bucket ``data``. ``refuses`` returns the status and the error code of a refusal."""

    objects: Mapping[str, bytes]
    refuses: Callable[[Asked], tuple[int, str] | None] = lambda asked: None
    encode: Callable[[str], str] = quote
    page: int = 1000
    endpoint: str = ""
    served: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked, prefix: str, span: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        if (refused := self.refuses(asked)) is not None:
            return refused[0], {}, f"<Error><Code>{refused[1]}</Code></Error>".encode()
        self.served.append(asked)
        if not asked.key:
            return 200, {}, self._listing(asked.token, prefix).encode()
        if (body := self.objects.get(asked.key)) is None:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        headers = {"ETag": _tag(body)}
        if body and (found := _RANGE.fullmatch(span)):
            begin, end = int(found[1]), min(int(found[2] or len(body)), len(body) - 1)
            return 206, headers | {"Content-Range": f"bytes {begin}-{end}/{len(body)}"}, body[begin : end + 1]
        return 200, headers, body

    def _listing(self, token: str, prefix: str) -> str:
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > token)
        page, more = keys[: self.page], len(keys) > self.page
        rows = [_ROW.format(escape(self.encode(key)), escape(_tag(body)), len(body)) for key, body in self._of(page)]
        following = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        head = f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{following}"
        return f"<ListBucketResult>{head}{''.join(rows)}</ListBucketResult>"

    def _of(self, keys: list[str]) -> Iterator[tuple[str, bytes]]:
        return ((key, self.objects[key]) for key in keys)


def _tag(body: bytes) -> str:
    return f'"{md5(body, usedforsecurity=False).hexdigest()}"'


@contextmanager
def running(store: OddStore) -> Iterator[OddStore]:
    """Serve the store and set its ``endpoint``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
            if {"versioning", "versions"} & query.keys():
                self._send(501, {}, b"")
                return
            key = unquote(url.path.removeprefix("/data").removeprefix("/"))
            asked = Asked(self.command, key, query.get("continuation-token", ""))
            self._send(*store.answer(asked, query.get("prefix", ""), self.headers.get("range", "")))

        do_HEAD = do_GET  # noqa: N815 -- as the handler calls it

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        store.endpoint = f"http://127.0.0.1:{server.server_port}"
        try:
            yield store
        finally:
            server.shutdown()
