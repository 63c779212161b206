"""etcd and kube-apiserver on loopback, for tests that need the real API and no nodes."""

import json
import shutil
import ssl
import subprocess
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from e2e.cluster.build import Programs
from e2e.cluster.processes import run, wait_for
from stoker_kube.client import KubeClient
from stoker_kube.resources import Kind
from tests.support.front_proxy import front_proxy
from tests.support.ports import free_ports

TOKEN = "admin-of-the-tests"
START_SECONDS = 60.0
CRDS = Path(__file__).resolve().parents[2] / "crds"


@dataclass
class ApiServer:
    """A running API server. ``kubeconfig`` is an administrator's. ``client()`` is an asynchronous context manager."""

    kubeconfig: Path
    url: str
    token: str = TOKEN

    @property
    def authority(self) -> Path:
        """The file of the server's own certificate."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        return Path(config["clusters"][0]["cluster"]["certificate-authority"])

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The SSL context of clients that trust the server's own certificate."""
        return ssl.create_default_context(cafile=self.authority)

    def create(self, kind: Kind, name: str, namespace: str = "", **body: Any) -> None:
        """Create an object as the administrator, at a hundredth of the cost of a kubectl process.

        ``body`` has fields besides the kind. ``metadata`` gets the name. Raises urllib.error.HTTPError.
        """
        body |= {"apiVersion": kind.api_version, "kind": kind.kind}
        body["metadata"] = {"name": name} | body.get("metadata", {})
        self._send("POST", kind.path(namespace), body)

    def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Delete an object as the administrator. Raises urllib.error.HTTPError."""
        self._send("DELETE", kind.path(namespace, name))

    def _send(self, method: str, path: str, body: Any = None) -> None:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, headers=headers, method=method)
        with urllib.request.urlopen(request, context=self.tls, timeout=START_SECONDS) as answer:
            answer.read()

    async def client(self) -> KubeClient:
        """Connect a new administrator's client: ``async with await apiserver.client() as kube``."""
        return await KubeClient.connect(self.kubeconfig)

    def kubectl(self, *words: str) -> str:
        """Run kubectl as the administrator. Return its output."""
        return run(Programs().path("kubectl"), "--kubeconfig", self.kubeconfig, *words)


class LocalControlPlane:
    """Starts both programs below ``folder`` and stops them, as a context manager that yields an ApiServer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> ApiServer:
        with self._stack:
            server = self._start()
            self._stack = self._stack.pop_all()
        return server

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> ApiServer:
        etcd, peer, secure = free_ports(3)
        self._daemon("etcd", [_etcd(), *_etcd_flags(self._folder / "etcd", etcd, peer)])
        key = self._folder / "service-account.key"
        key.write_bytes(_private_key())
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        flags = _apiserver_flags(self._folder / "tls", etcd, secure, key, tokens)
        flags += front_proxy(self._folder / "front-proxy").flags
        process = self._daemon("kube-apiserver", [str(Programs().path("kube-apiserver")), *flags])
        server = ApiServer(self._kubeconfig(secure), f"https://127.0.0.1:{secure}")
        log = self._folder / "kube-apiserver.log"
        wait_for("kube-apiserver", lambda: _ready(server), START_SECONDS, log, lambda: process.poll() is None)
        server.kubectl("apply", *(f"--filename={file}" for file in sorted(CRDS.glob("*.yaml"))))
        server.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        return server

    def _daemon(self, name: str, argv: list[str]) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder)
        self._stack.callback(_end, process)
        return process

    def _kubeconfig(self, port: int) -> Path:
        certificate = str(self._folder / "tls" / "apiserver.crt")  # made by the server itself, for loopback
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": certificate}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin"}}],
            "current-context": "local",
        }
        file = self._folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        return file


def _etcd() -> str:
    found = shutil.which("etcd")
    assert found, "etcd is missing: `python -m e2e.cluster build` installs it"
    return found


def _etcd_flags(data: Path, client: int, peer: int) -> list[str]:
    urls = [f"--{kind}-client-urls=http://127.0.0.1:{client}" for kind in ("listen", "advertise")]
    peers = [f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}"]
    # Discarded after the tests, so fsync has no benefit.
    return [
        f"--data-dir={data}",
        *urls,
        *peers,
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]


def _apiserver_flags(tls: Path, etcd: int, secure: int, key: Path, tokens: Path) -> list[str]:
    flags = {
        "advertise-address": "127.0.0.1",
        "allow-privileged": "true",
        "authorization-mode": "RBAC",
        "bind-address": "127.0.0.1",
        "cert-dir": tls,
        # No controller makes the namespaces' default ServiceAccounts here, and without them pods would be refused.
        "disable-admission-plugins": "ServiceAccount",
        "etcd-servers": f"http://127.0.0.1:{etcd}",
        "secure-port": secure,
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": key,
        "service-account-signing-key-file": key,
        "service-cluster-ip-range": "10.0.0.0/24",
        "token-auth-file": tokens,
    }
    return [f"--{name}={value}" for name, value in flags.items()]


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _ready(server: ApiServer) -> bool:
    probe = run(Programs().path("kubectl"), "--kubeconfig", server.kubeconfig, "get", "--raw", "/readyz", check=False)
    return probe == "ok"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process. Its data is discarded, and a normal stop of an API server takes ten seconds."""
    process.kill()
    process.wait()
