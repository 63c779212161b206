"""How a pod reaches the API server of its cluster: by the address and the files that the kubelet gives it."""

import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker_kube.errors import ConfigError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Seconds for which a token is kept: the kubelet writes a new one long before the old one ends.
_KEPT = 60.0


class ServiceAccount:
    """A pod's ServiceAccount: a token that the kubelet renews in ``folder``, beside the authority to trust.

    ``environment`` names the server, as Kubernetes does for each container. ``clock``: the monotonic one, in seconds.
    """

    proxy: str | None = None
    server_name: str | None = None

    def __init__(
        self, environment: Mapping[str, str], folder: Path = ACCOUNT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the token once. Raises ConfigError."""
        self._folder, self._clock = folder, clock
        host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise ConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
        self.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._token, self._read_at = self._read(), clock()

    def ssl(self) -> ssl.SSLContext:
        """Return what verifies the server. Raises ConfigError."""
        authority = self._folder / "ca.crt"
        try:
            return ssl.create_default_context(cafile=authority)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{authority} is not usable: {error}") from error

    async def authorization(self) -> str:
        """Return the header's value. Raises ConfigError."""
        if self._clock() - self._read_at >= _KEPT:
            self._token, self._read_at = self._read(), self._clock()
        return f"Bearer {self._token}"

    async def renew(self) -> bool:
        """Do nothing: a file that was read a moment ago says nothing new."""
        return False

    def _read(self) -> str:
        file = self._folder / "token"
        try:
            token = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read: {error}") from error
        if not token:
            raise ConfigError(f"{file} is empty")
        return token
