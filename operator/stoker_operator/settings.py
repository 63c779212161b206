"""The operator's settings, read from the environment by ``main`` only."""

import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from stoker_api.datasets.node_selection import QUALIFIED_NAME
from stoker_operator.core.origins.origin_policy import OriginPolicy
from stoker_operator.errors import SettingsError

Port = Annotated[int, Field(ge=0, le=65535)]


def _upper(text: Any) -> Any:
    return text.upper() if isinstance(text, str) else text


# A taint as its key, or key=value.
_LABEL = r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9_.-]{1,63}"
_TAINT = rf"{_LABEL}(=[A-Za-z0-9_.-]{{0,63}})?"


class Settings(BaseSettings):
    """All settings for the chart and for people, from POD_NAMESPACE, POD_NAME and STOKER_* (names in capitals)."""

    # An empty variable counts as unset, because a chart leaves a value out this way.
    model_config = SettingsConfigDict(env_prefix="STOKER_", env_ignore_empty=True, frozen=True, extra="ignore")

    namespace: str = Field(validation_alias="POD_NAMESPACE", description="Where the operator and the sidecars run.")
    identity: str = Field(
        validation_alias="POD_NAME", default_factory=socket.gethostname, description="Of this replica, in the Lease."
    )
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = "INFO"
    log_format: Literal["text", "json"] = Field("text", description="Of log lines; log_lines.py reads the variable.")
    host: str | None = Field(None, description="Address to listen on; by default all of the pod, IPv4 and IPv6.")
    http_port: Port = Field(8080, description="Health and metrics.")
    webhook_port: Port = Field(9443, description="The admission webhook.")
    figures_port: Port = Field(9444, description="The API group figures.stoker.dev.")
    figures: bool = Field(True, description="Serve figures of pods to those who may read their namespace.")
    startup_taint: bool = Field(False, description="Take stoker.dev/agent-not-ready off nodes whose sidecar is ready.")
    leaving_taints: str = Field(
        "",
        max_length=10_000,
        pattern=rf"^({_TAINT}(,{_TAINT})*)?$",
        description="Taints of nodes that are about to go, each key or key=value, with commas between them.",
    )
    peers: Literal["Auto", "Off"] = Field(
        "Auto", description="Whether the sidecars of nodes that are to have the same Dataset give it to each other."
    )
    rack_label: str = Field(
        "",
        max_length=317,
        pattern=rf"^({QUALIFIED_NAME[1:-1]})?$",
        description="The label that tells a node's rack; empty: none.",
    )
    kueue: bool = Field(False, description="Answer Kueue's AdmissionChecks that name Stoker (docs/guides/queues.md).")
    writes_per_second: float = Field(
        30.0, ge=1.0, le=10_000.0, description="Of the leader in the long run, releases of pods left out."
    )
    reports: bool = Field(
        False, description="Give annotated pods a way to report what they do (docs/guides/reports.md)."
    )
    tuning: bool = Field(True, description="Whether what is seen of workloads is acted upon at all.")
    tuning_profile: str = Field("", description="The TuningProfile of Datasets that name none; empty: there is none.")
    tuning_environment: str = Field("", description="The environment of tuning documents that name none.")
    origins: OriginPolicy = Field(OriginPolicy(), description="Caps and prices of object stores, as JSON.")
    webhook_certificate_dir: Path | None = Field(
        None, description="A mounted tls.crt and tls.key, such as cert-manager's; absent: certificates of our own."
    )

    @property
    def taints_of_leaving(self) -> tuple[str, ...]:
        """The taints of nodes that are about to leave."""
        return tuple(filter(None, self.leaving_taints.split(",")))


def read_settings() -> Settings:
    """Read the process's environment. Raises SettingsError with the names of the variables."""
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(one["loc"][0], one) for one in error.errors())) from error


def _sentence(field: int | str, problem: Any) -> str:
    name = str(field) if str(field).startswith("POD_") else f"STOKER_{str(field).upper()}"
    if problem["type"] == "missing":
        return f"{name} is not set: give the namespace that Stoker is installed in"
    return f"{name} is {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"
