"""The identity of a test API server's proxy, which aggregated servers check."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import DNSName
from cryptography.x509.oid import ExtendedKeyUsageOID

from stoker_operator.webhook.certs import CERTIFICATE_LIFE, key_pem, make_authority, pem, sign

# ``sign`` gives every certificate this common name.
PROXY_NAME = "stoker"


@dataclass(frozen=True)
class FrontProxy:
    """PEM files: the authority, and the proxy's certificate and key."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def flags(self) -> list[str]:
        """Flags of kube-apiserver."""
        return [
            f"--requestheader-client-ca-file={self.authority}",
            f"--requestheader-allowed-names={PROXY_NAME}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self.certificate}",
            f"--proxy-client-key-file={self.key}",
        ]


def front_proxy(folder: Path) -> FrontProxy:
    """Make one below ``folder``."""
    folder.mkdir()
    now = datetime.now(UTC)
    authority, authority_key = make_authority(now, "front-proxy-ca")
    key = ec.generate_private_key(ec.SECP256R1())
    usage = (ExtendedKeyUsageOID.CLIENT_AUTH,)
    certificate = sign(
        authority, authority_key, key.public_key(), [DNSName("front-proxy")], usage, now, CERTIFICATE_LIFE
    )
    made = FrontProxy(folder / "ca.crt", folder / "proxy.crt", folder / "proxy.key")
    made.authority.write_bytes(pem(authority))
    made.certificate.write_bytes(certificate)
    made.key.write_bytes(key_pem(key))
    return made
