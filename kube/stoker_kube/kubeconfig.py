"""How a user reaches an API server: by a kubeconfig, as the official library reads it, exec plugins and all."""

import ssl
from pathlib import Path
from typing import Self

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config

from stoker_kube.errors import ConfigError


class Kubeconfig:
    """A context of a kubeconfig, loaded; make it with ``load``."""

    def __init__(self, configuration: Configuration, file: Path | None, context: str | None) -> None:
        self._configuration = configuration
        self._file, self._context = file, context
        self.host: str = configuration.host
        self.proxy: str | None = configuration.proxy
        self.server_name: str | None = configuration.tls_server_name

    @classmethod
    async def load(cls, file: Path | None, context: str | None) -> Self:
        """Read ``file``, else $KUBECONFIG, else ~/.kube/config. Raises ConfigError."""
        configuration = Configuration()
        try:
            await _load(configuration, file, context)
        except (ConfigException, OSError, ValueError) as error:
            raise ConfigError(f"{file or '$KUBECONFIG or ~/.kube/config'} is not usable: {error}") from error
        return cls(configuration, file, context)

    def ssl(self) -> ssl.SSLContext:
        """Return what verifies the server, and shows it the user's certificate. Raises ConfigError."""
        found = self._configuration
        try:
            context = ssl.create_default_context(cafile=found.ssl_ca_cert, cadata=found.ca_cert_data)
            if found.cert_file:
                context.load_cert_chain(found.cert_file, keyfile=found.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the certificates that {self._file or 'it'} names are not usable: {error}") from error
        if not found.verify_ssl:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if found.disable_strict_ssl_verification:
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    async def authorization(self) -> str:
        """Return the header's value; empty where the user has no token. Raises ConfigError."""
        try:
            found = (await self._configuration.auth_settings()).get("BearerToken")
        except (ConfigException, OSError, ValueError) as error:
            raise ConfigError(f"The credentials for the API server cannot be read: {error}") from error
        return str(found["value"] or "") if found else ""

    async def renew(self) -> bool:
        """Read the file again, since an exec plugin's token may have expired; whether the token is a new one."""
        before = dict(self._configuration.api_key)
        try:
            await _load(self._configuration, self._file, self._context)
        except (ConfigException, OSError, ValueError):
            return False
        return bool(before != self._configuration.api_key)


async def _load(configuration: Configuration, kubeconfig: Path | None, context: str | None) -> None:
    file = {"config_file": str(kubeconfig)} if kubeconfig else {}
    await load_kube_config(**file, context=context, client_configuration=configuration, persist_config=False)
