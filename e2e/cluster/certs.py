"""The cluster's certificate authority, its certificates, and the kubeconfigs that contain them."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.cluster.processes import run
from e2e.cluster.slots import Slot

DAYS = "3650"
EC_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
# openssl's own default file would mark every self-made certificate as an authority.
OPENSSL_CONFIG = "[req]\ndistinguished_name=dn\n[dn]\n"


@dataclass(frozen=True)
class Identity:
    """The subject of a certificate: file name, Kubernetes user and group, and server names."""

    file: str
    user: str
    group: str = ""
    serves: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        return (f"/O={self.group}" if self.group else "") + f"/CN={self.user}"


def control_plane_identities(slot: Slot) -> list[Identity]:
    """Return the identities that every cluster needs, besides those of its nodes."""
    names = [f"kubernetes{rest}" for rest in ("", ".default", ".default.svc", ".default.svc.cluster.local")]
    addresses = ["127.0.0.1", str(slot.host_address), str(slot.api_service_address)]
    serves = (*(f"DNS:{name}" for name in [*names, "localhost"]), *(f"IP:{address}" for address in addresses))
    return [
        Identity("apiserver", "kube-apiserver", serves=serves),
        Identity("front-proxy", "front-proxy-client"),
        Identity("apiserver-kubelet", "kube-apiserver-kubelet-client", "system:masters"),
        Identity("admin", "stoker-e2e-admin", "system:masters"),
        Identity("controller-manager", "system:kube-controller-manager"),
        Identity("scheduler", "system:kube-scheduler"),
        Identity("kube-proxy", "system:kube-proxy"),
        Identity("coredns", "stoker-e2e:coredns"),
    ]


def node_identity(node: str) -> Identity:
    return Identity(node, f"system:node:{node}", "system:nodes")


class Authority:
    """A certificate authority in a folder. Every method raises CommandFailedError if openssl fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def certificate(self) -> Path:
        return self._folder / "ca.crt"

    @property
    def key(self) -> Path:
        return self._folder / "ca.key"

    @property
    def service_account_key(self) -> Path:
        return self._folder / "sa.key"

    def files(self, name: str) -> tuple[Path, Path]:
        """Return the paths of the certificate and the key named `name`."""
        return self._folder / f"{name}.crt", self._folder / f"{name}.key"

    def create(self) -> None:
        """Make the authority's own key and certificate, and the key that signs service account tokens."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self._folder / "openssl.cnf").write_text(OPENSSL_CONFIG)
        extensions = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,digitalSignature"]
        self._request("/CN=stoker-e2e-ca", self.certificate, self.key, extensions)
        run("openssl", "genpkey", "-algorithm", "RSA", "-out", self.service_account_key)

    def issue(self, identity: Identity) -> None:
        """Write NAME.crt and NAME.key for `identity`, signed by this authority."""
        usage = "serverAuth" if identity.serves else "clientAuth"
        extensions = ["basicConstraints=CA:FALSE", f"extendedKeyUsage={usage}"]
        if identity.serves:
            extensions.append("subjectAltName=" + ",".join(identity.serves))
        signer = ["-CA", str(self.certificate), "-CAkey", str(self.key)]
        self._request(identity.subject, *self.files(identity.file), extensions, signer)

    def _request(
        self, subject: str, certificate: Path, key: Path, extensions: list[str], signer: list[str] | None = None
    ) -> None:
        added = [word for extension in extensions for word in ("-addext", extension)]
        config = ["-config", str(self._folder / "openssl.cnf")]
        output = ["-subj", subject, "-days", DAYS, "-keyout", str(key), "-out", str(certificate)]
        run("openssl", "req", "-x509", *config, *EC_KEY, *output, *added, *(signer or []))

    def kubeconfig(self, name: str, server: str) -> str:
        """Return a self-contained kubeconfig for the identity issued as `name`."""
        certificate, key = self.files(name)
        data = {what: _encoded(path) for what, path in (("ca", self.certificate), ("crt", certificate), ("key", key))}
        return render_kubeconfig(name, server, data["ca"], data["crt"], data["key"])


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def render_kubeconfig(user: str, server: str, authority: str, certificate: str, key: str) -> str:
    """Return the YAML of a kubeconfig. Certificates and key are in base64."""
    return _kubeconfig(user, server, authority, {"client-certificate-data": certificate, "client-key-data": key})


def render_token_kubeconfig(user: str, server: str, authority: bytes, token: str) -> str:
    """Return the YAML of a kubeconfig for a token, such as that of a ServiceAccount. ``authority`` is PEM."""
    return _kubeconfig(user, server, base64.b64encode(authority).decode(), {"token": token})


def _kubeconfig(user: str, server: str, authority: str, credentials: Mapping[str, str]) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": dict(credentials)}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
        "current-context": "e2e",
    }
    return yaml.safe_dump(document, sort_keys=False)
