"""Which sources a DatasetClass lets be read: servers and folders."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from urllib.parse import unquote

from stoker_api.dataset_source import DatasetSource
from stoker_api.datasetclass import DatasetClassSpec

_PORTS = {"http": 80, "https": 443}
_SHOWN = 5  # endpoints or folders that a sentence names


def source_refusal(source: DatasetSource, name: str, spec: DatasetClassSpec) -> str | None:
    """Return why the source may not be read, or None."""
    scheme, _, rest = source.uri.partition("://")
    if scheme == "file":
        folder = unquote(rest)  # as the nodes read it
        if spec.host_folders is None or any(_beneath(folder, one) for one in spec.host_folders):
            return None
        what, field, allowed = f"source.uri {source.uri}", "hostFolders", spec.host_folders
    else:
        endpoint = source.endpoint or f"https://s3.{source.region}.amazonaws.com"
        if spec.endpoints is None or any(endpoint_matches(endpoint, one) for one in spec.endpoints):
            return None
        what, field, allowed = f"source.endpoint {endpoint}", "endpoints", spec.endpoints
    return (
        f"{what} is not allowed: {allowed_by(name, listed(allowed))}; write one of these, name another class in "
        f"spec.className, or have an administrator add it to the class's spec.{field}"
    )


def _beneath(path: str, folder: str) -> bool:
    pure = PurePosixPath(path)
    return ".." not in pure.parts and pure.is_relative_to(folder)


def endpoint_matches(endpoint: str, pattern: str) -> bool:
    """Tell whether an endpoint is the pattern's, in which ``*`` stands for one name between dots.

    Scheme, host and port must be equal; a port that is left out is the scheme's own.
    """
    asked, allowed = _server(endpoint), _server(pattern)
    if asked is None or allowed is None or (asked[0], asked[2]) != (allowed[0], allowed[2]):
        return False
    labels, wanted = asked[1].split("."), allowed[1].split(".")
    return len(labels) == len(wanted) and all(one in ("*", label) for label, one in zip(labels, wanted, strict=True))


def _server(url: str) -> tuple[str, str, int] | None:
    """Read scheme, host in small letters, and port; None when there is no server in it."""
    match = re.fullmatch(r"(https?)://(\[[^\]]+\]|[^:/\[\]]+)(?::([0-9]{1,5}))?/?", url)
    if match is None:
        return None
    scheme, host, port = match.groups()
    return scheme, host.lower(), int(port) if port else _PORTS[scheme]


def allowed_by(name: str, what: str) -> str:
    """Say what the class of that name allows; "": no class."""
    return f"DatasetClass {name} allows {what}" if name else f"without a DatasetClass, {what} is allowed"


def listed(values: Iterable[str]) -> str:
    """Name the first few."""
    shown = [str(value) for value in values]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more or "none"
