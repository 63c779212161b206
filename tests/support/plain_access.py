"""Access to an API server on loopback without a certificate."""

import ssl


class PlainAccess:
    """An access as in kubeconfigs. ``token`` is sent to the server, "" for none."""

    proxy: str | None = None
    server_name: str | None = None

    def __init__(self, host: str, token: str = "") -> None:
        self.host = host
        self._token = token

    def ssl(self) -> ssl.SSLContext:
        """Return a context that is not used."""
        return ssl.create_default_context()

    async def authorization(self) -> str:
        """Return the header's value."""
        return f"Bearer {self._token}" if self._token else ""

    async def renew(self) -> bool:
        """Do nothing: the token is permanent."""
        return False
