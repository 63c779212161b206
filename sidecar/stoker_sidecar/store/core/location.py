"""What source.uri names: a prefix of an S3 bucket, or a folder of the node."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from stoker_api.names import Reason
from stoker_sidecar.errors import InvalidSource
from stoker_sidecar.version.objects import folder_prefix

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True)
class S3Location:
    """A prefix of an S3 bucket; ``prefix`` is empty or ends with '/'."""

    bucket: str
    prefix: str


@dataclass(frozen=True)
class FolderLocation:
    """An absolute folder on the node."""

    path: Path


def parse_location(uri: str) -> S3Location | FolderLocation:
    """Parse source.uri. Raises InvalidSource with the reason that the API knows."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in ("s3", "file"):
        raise InvalidSource(
            f"source.uri {uri!r} is not supported: write s3://bucket/prefix/ or file:///folder",
            reason=Reason.UNSUPPORTED_SCHEME,
        )
    return _s3(uri, rest) if scheme == "s3" else _folder(uri, rest)


def _s3(uri: str, rest: str) -> S3Location:
    bucket, _, prefix = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidSource(
            f"the bucket {bucket!r} in source.uri {uri!r} must have 3 to 63 characters of a-z, 0-9, '.' and '-', "
            "and begin and end with a letter or digit",
            reason=Reason.MALFORMED_URI,
        )
    return S3Location(bucket, folder_prefix(prefix))


def _folder(uri: str, rest: str) -> FolderLocation:
    path = Path(unquote(rest))
    if not path.is_absolute() or ".." in path.parts:
        raise InvalidSource(
            f"source.uri {uri!r} must name an absolute folder without '..': write file:///folder",
            reason=Reason.MALFORMED_URI,
        )
    return FolderLocation(path)
