"""Access to an API server by a kubeconfig, read with the official library, including exec plugins."""

import os
import ssl
from pathlib import Path
from typing import Self

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config
from yaml import YAMLError

from stoker_kube.errors import ConfigError


class Kubeconfig:
    """A loaded context of a kubeconfig. Create it with ``load``."""

    def __init__(self, configuration: Configuration, file: Path | None, context: str | None) -> None:
        self._configuration = configuration
        self._file, self._context = file, context
        self.host: str = configuration.host
        self.proxy: str | None = configuration.proxy
        self.server_name: str | None = configuration.tls_server_name

    @classmethod
    async def load(cls, file: Path | None, context: str | None) -> Self:
        """Read ``file``, else $KUBECONFIG, else ~/.kube/config. Raises ConfigError."""
        configuration, names = Configuration(), _names(file)
        if not _any_exists(names):
            raise ConfigError(f"{names} does not exist. Set KUBECONFIG or --kubeconfig to your kubeconfig.")
        try:
            await _load(configuration, file, context)
        except (ConfigException, OSError, ValueError, YAMLError) as error:
            why = " ".join(str(error).split())
            raise ConfigError(f"Cannot use {names}: {why}. Check it with `kubectl config get-contexts`.") from error
        return cls(configuration, file, context)

    def ssl(self) -> ssl.SSLContext:
        """Return a TLS context with the CA and the certificate of the user. Raises ConfigError."""
        configuration = self._configuration
        try:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"Cannot use the certificates in {self._file or 'the kubeconfig'}: {error}") from error
        if not configuration.verify_ssl:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if configuration.disable_strict_ssl_verification:
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    async def authorization(self) -> str:
        """Return the Authorization header, empty without a token. Raises ConfigError."""
        try:
            token = (await self._configuration.auth_settings()).get("BearerToken")
        except (ConfigException, OSError, ValueError) as error:
            raise ConfigError(f"Cannot read the credentials for the API server: {error}") from error
        return str(token["value"] or "") if token else ""

    async def renew(self) -> bool:
        """Load the file again, because the token of an exec plugin may have expired. Return True for a new token."""
        before = dict(self._configuration.api_key)
        try:
            await _load(self._configuration, self._file, self._context)
        except (ConfigException, OSError, ValueError):
            return False
        return bool(before != self._configuration.api_key)


async def _load(configuration: Configuration, kubeconfig: Path | None, context: str | None) -> None:
    await load_kube_config(_names(kubeconfig), context, configuration, persist_config=False)


def _names(kubeconfig: Path | None) -> str:
    """Return the name of the file, or of several files in $KUBECONFIG, which the library reads only at import."""
    return str(kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")


def _any_exists(names: str) -> bool:
    return any(Path(name).expanduser().exists() for name in names.split(os.pathsep))
