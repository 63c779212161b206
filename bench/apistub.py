"""The part of a Kubernetes API server that a sidecar's agent needs: a NodeCache with its status, and a Secret."""

import base64
import json
import ssl
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from stoker_operator.webhook.certs import make
from stoker_operator.webhook.peer_authority import PeerSigner

NODE = "bench"
LOOPBACK = "127.0.0.1"
_TICK_SECONDS = 0.2


class ApiStub:
    """A Kubernetes API server with one NodeCache and one Secret, as a context manager.

    ``plan`` sets the desired state of the node. ``status`` is the status that the agent wrote last. ``address`` is the
    listen address on this machine. ``signer`` signs the node's certificate for peers; None signs none.
    """

    def __init__(self, secret: Mapping[str, str], *, address: str = LOOPBACK, signer: PeerSigner | None = None) -> None:
        self.status: dict[str, Any] = {}
        self.changed = threading.Condition()
        self.secret = _encoded({key: value.encode() for key, value in secret.items()})
        self._signer = signer
        self._peer: dict[str, Any] = {}
        self._peer_key = ""
        self.closed = False
        self._spec: dict[str, Any] = {"datasets": []}
        self._version = 1
        self._address = address
        self._server = _Server((address, 0), _Handler)
        self._server.stub = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def plan(self, *datasets: Mapping[str, Any]) -> None:
        """Replace the datasets in the NodeCache's spec."""
        with self.changed:
            self._spec = {"datasets": [dict(dataset) for dataset in datasets]}
            self._version += 1
            self.changed.notify_all()

    def newer_than(self, seen: int) -> bool:
        """Wait briefly for a resourceVersion other than ``seen``. Return True if there is one."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or self._version != seen, _TICK_SECONDS)
            return self._version != seen

    @property
    def version(self) -> int:
        """The resourceVersion."""
        return self._version

    def node_cache(self) -> dict[str, Any]:
        """Return the current NodeCache."""
        metadata = {"name": NODE, "uid": "bench", "resourceVersion": str(self._version), "generation": self._version}
        return {
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "NodeCache",
            "metadata": metadata,
            "spec": self._spec | ({"peer": self._peer} if self._peer else {}),
            "status": self.status,
        }

    def certify(self) -> None:
        """Sign a certificate for the key in the status, as the operator does."""
        key = self.status.get("peerKey", "")
        if self._signer is None or key in ("", self._peer_key):
            return
        signed = self._signer.sign(NODE, key, datetime.now(UTC))
        with self.changed:
            self._peer, self._peer_key = signed.model_dump(by_alias=True), key
            self._version += 1
            self.changed.notify_all()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that lead a pod to its API server."""
        return {"KUBERNETES_SERVICE_HOST": self._address, "KUBERNETES_SERVICE_PORT": str(self._server.server_port)}

    def write_service_account(self, folder: Path) -> None:
        """Write the service account files of a pod, and serve TLS from then on."""
        material = make([self._address], datetime.now(UTC))
        folder.mkdir()
        (folder / "token").write_text("bench")
        (folder / "ca.crt").write_bytes(material.authorities)
        pair = folder / "server.pem"
        pair.write_bytes(material.key + material.certificate)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)


def _encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    stub: ApiStub

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing. Benchmarks kill agents on purpose, which breaks connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:  # the name comes from the base class
        stub = self.server.stub
        if "/secrets/" in self.path:
            self._answer({"kind": "Secret", "metadata": {"name": "keys", "namespace": "bench"}, "data": stub.secret})
        elif "/tuningprofiles" in self.path:
            self._unchanged(stub, [])
        elif "watch=true" in self.path:
            self._watch(stub)
        else:
            self._answer({"metadata": {"resourceVersion": str(stub.version)}, "items": [stub.node_cache()]})

    def do_PATCH(self) -> None:
        stub = self.server.stub
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with stub.changed:
            stub.status = body.get("status", stub.status)
        stub.certify()
        self._answer(stub.node_cache())

    def do_POST(self) -> None:
        """Accept and discard an Event. Return a token for the node's service account."""
        self.rfile.read(int(self.headers["Content-Length"]))
        token = {"token": "bench", "expirationTimestamp": "2999-01-01T00:00:00Z"}
        self._answer({"metadata": {"name": "posted", "resourceVersion": "1"}, "status": token})

    def _unchanged(self, stub: ApiStub, items: Sequence[Mapping[str, Any]]) -> None:
        """Return the complete list. Keep the watch open until the client leaves."""
        if "watch=true" not in self.path:
            self._answer({"metadata": {"resourceVersion": "1"}, "items": items})
            return
        self._begin_watch()
        while not stub.closed:
            stub.newer_than(stub.version)

    def _watch(self, stub: ApiStub) -> None:
        self._begin_watch()
        seen = -1
        while not stub.closed:
            if stub.newer_than(seen):
                seen = stub.version
                line = json.dumps({"type": "MODIFIED", "object": stub.node_cache()})
                self.wfile.write(line.encode() + b"\n")
                self.wfile.flush()

    def _begin_watch(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()

    def _answer(self, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""
