"""The operator's settings: typed, from the environment, read by main alone."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker_operator.errors import SettingsError

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """How fast a standby replica takes over; seconds. kube-scheduler's own values."""

    name: str = "stoker-operator"
    duration: float = 15.0  # a standby waits this long for a leader that fell silent
    renew: float = 10.0  # a leader that could not renew for this long ends itself, before a standby starts
    retry: float = 2.0


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where the admission webhook is served and who must trust it; the names are the chart's."""

    port: int = 9443
    service: str = "stoker-webhook"
    secret: str = "stoker-webhook-tls"
    configuration: str = "stoker"
    certificate_dir: Path | None = None  # a mounted tls.crt and tls.key, such as cert-manager's; None: own certificates


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. Environment: POD_NAMESPACE, POD_NAME and STOKER_*, as the chart writes them."""

    namespace: str  # where the operator and the sidecars run
    identity: str  # of this replica, in the Lease
    log_level: str = "INFO"
    host: str = "0.0.0.0"
    http_port: int = 8080
    deployment: str = "stoker-operator"
    sidecar_account: str = "stoker-sidecar"
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    webhook: WebhookSettings = field(default_factory=WebhookSettings)


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings. Raises SettingsError naming the variable."""
    namespace = environment.get("POD_NAMESPACE", "")
    if not namespace:
        raise SettingsError("POD_NAMESPACE is not set: give the namespace that Stoker is installed in")
    level = environment.get("STOKER_LOG_LEVEL", "info").upper()
    if level not in LOG_LEVELS:
        raise SettingsError(f"STOKER_LOG_LEVEL is {level}: write one of {', '.join(LOG_LEVELS).lower()}")
    folder = environment.get("STOKER_WEBHOOK_CERTIFICATE_DIR", "")
    return Settings(
        namespace=namespace,
        identity=environment.get("POD_NAME") or socket.gethostname(),
        log_level=level,
        host=environment.get("STOKER_HOST", "0.0.0.0"),
        http_port=_port(environment, "STOKER_HTTP_PORT", 8080),
        webhook=WebhookSettings(
            port=_port(environment, "STOKER_WEBHOOK_PORT", 9443), certificate_dir=Path(folder) if folder else None
        ),
    )


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdecimal() or int(text) > 65535:
        raise SettingsError(f"{name} is {text!r}: write a port number")
    return int(text)
