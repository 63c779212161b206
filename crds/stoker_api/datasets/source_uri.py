"""The rules of a source's URI, as the CRD has them in CEL."""

import re
from urllib.parse import urlsplit

from stoker_api.names import Reason

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def source_problem(uri: str) -> tuple[Reason, str] | None:
    """Return the reason and message if a source's URI is invalid, or None."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        return Reason.MALFORMED_URI, f"source.uri {uri} cannot be read: {error}"
    if parts.scheme not in ("s3", "file"):
        return (
            Reason.UNSUPPORTED_SCHEME,
            f"source.uri {uri} is not supported: write s3://bucket/prefix/ or file:///folder",
        )
    if parts.scheme == "s3" and not _BUCKET.fullmatch(parts.netloc):
        return Reason.MALFORMED_URI, (
            f"the bucket {parts.netloc!r} in source.uri must have 3 to 63 characters of a-z, 0-9, '.' and '-', "
            "and begin and end with a letter or digit"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        return Reason.MALFORMED_URI, f"source.uri {uri} must have three slashes: file:///folder"
    if ".." in parts.path.split("/"):
        return Reason.MALFORMED_URI, f"source.uri {uri} must not contain '..'"
    return None
