"""Access to the API server by the ServiceAccount of a pod."""

import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker_api.datasets.endpoint import host_port
from stoker_kube.errors import ConfigError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Seconds until the token is read again. The kubelet renews it long before it expires.
_KEPT = 60.0


class PodNetwork:
    """The API server as pods reach it, without credentials. ``folder`` contains its CA.

    ``environment``: has the address of the server.
    """

    proxy: str | None = None
    server_name: str | None = None

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        """Read the address. Raises ConfigError."""
        self._folder = folder
        host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise ConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
        self.host = f"https://{host_port(host, port)}"

    def ssl(self) -> ssl.SSLContext:
        """Return a TLS context with the CA. Raises ConfigError."""
        authority = self._folder / "ca.crt"
        try:
            return ssl.create_default_context(cafile=authority)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"Cannot use {authority}: {error}") from error

    async def authorization(self) -> str:
        """Return an empty string."""
        return ""

    async def renew(self) -> bool:
        """Return False. There are no credentials."""
        return False


class ServiceAccount(PodNetwork):
    """The ServiceAccount of a pod. ``folder`` contains the CA, and a token that the kubelet renews.

    ``clock``: monotonic, in seconds.
    """

    def __init__(
        self, environment: Mapping[str, str], folder: Path = ACCOUNT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the token once. Raises ConfigError."""
        super().__init__(environment, folder)
        self._clock = clock
        self._token, self._read_at = self._read(), clock()

    async def authorization(self) -> str:
        """Return the Authorization header. Raises ConfigError."""
        if self._clock() - self._read_at >= _KEPT:
            self._token, self._read_at = self._read(), self._clock()
        return f"Bearer {self._token}"

    def _read(self) -> str:
        file = self._folder / "token"
        try:
            token = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Cannot read {file}: {error}") from error
        if not token:
            raise ConfigError(f"{file} is empty")
        return token
