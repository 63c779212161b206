"""A Dataset's source, the rules of its URI, and the sidecars' credentials for the object store."""

import re
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field

from stoker_api.datasets.endpoint import ENDPOINT_HINT, ENDPOINT_PATTERN, REGION_PATTERN, checked_endpoint
from stoker_api.meta import Model, Name, cel_rule
from stoker_api.names import Reason

_PATTERN = Annotated[str, Field(min_length=1, max_length=256)]
_MOST_PATTERNS = 50


class AddressingStyle(StrEnum):
    """How the bucket is put in an S3 URL."""

    AUTO = "Auto"
    PATH = "Path"
    VIRTUAL = "Virtual"


class SecretReference(Model):
    """A Secret in the Dataset's namespace."""

    name: Annotated[Name, Field(description="Name of a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")]


class Credentials(Model):
    """Credentials for the object store; at most one of the fields."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule(
                    "!(has(self.secretRef) && has(self.serviceAccount))",
                    "credentials takes secretRef or serviceAccount, not both",
                )
            ]
        }
    )
    secret_ref: Annotated[
        SecretReference | None,
        Field(
            description="Static keys: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, optionally AWS_SESSION_TOKEN and "
            "ca.crt."
        ),
    ] = None
    service_account: Annotated[
        Name | None,
        Field(
            description="Web identity: a ServiceAccount of this namespace annotated with eks.amazonaws.com/role-arn."
        ),
    ] = None


class Source(Model):
    """Where the bytes come from, as nodes see it."""

    # Types without rules: a node must parse every NodeCache, also entries that are older than a rule of DatasetSource.
    uri: Annotated[str, Field(description="s3://bucket/prefix/ or file:///folder.")]
    endpoint: Annotated[str | None, Field(description="URL of an S3-compatible server. Absent: Amazon's.")] = None
    region: Annotated[str, Field(description="Region of the bucket.")] = "us-east-1"
    addressing_style: Annotated[
        AddressingStyle,
        Field(description="Auto: path style with a custom endpoint, otherwise virtual-host style."),
    ] = AddressingStyle.AUTO
    credentials: Annotated[
        Credentials | None,
        Field(description="Absent: the node's role if it has one, else anonymous."),
    ] = None
    include: Annotated[tuple[str, ...], Field(description="Patterns to keep. Only the listing node gets them.")] = ()
    exclude: Annotated[
        tuple[str, ...], Field(description="Patterns to leave out. Only the listing node gets them.")
    ] = ()


class DatasetSource(Source):
    """Where the bytes come from."""

    uri: Annotated[
        str,
        Field(
            description="s3://bucket/prefix/ or file:///folder (a folder that every selected node sees, such as NFS).",
            max_length=1200,
            json_schema_extra={
                "x-kubernetes-validations": [
                    cel_rule(
                        "self.startsWith('s3://') || self.startsWith('file:///')",
                        "source.uri must be s3://bucket/prefix/ or file:///folder",
                        "'source.uri ' + self + ' is not supported: write s3://bucket/prefix/ or file:///folder'",
                    ),
                    cel_rule(
                        "!self.startsWith('s3://') || self.matches('^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$')",
                        "the bucket in source.uri must have 3 to 63 characters of a-z, 0-9, '.' and '-', "
                        "and begin and end with a letter or digit",
                    ),
                    cel_rule("!self.contains('/../') && !self.endsWith('/..')", "source.uri must not contain '..'"),
                ]
            },
        ),
    ]
    endpoint: Annotated[
        str | None,
        Field(
            description="URL of an S3-compatible server, such as https://minio.storage:9000. Default: Amazon's.",
            max_length=300,
            json_schema_extra={
                "x-kubernetes-validations": [
                    cel_rule(
                        f"self.matches('{ENDPOINT_PATTERN}')",
                        f"source.endpoint {ENDPOINT_HINT}",
                        f"'source.endpoint ' + self + ' {ENDPOINT_HINT}'",
                    )
                ]
            },
        ),
        AfterValidator(checked_endpoint),
    ] = None
    region: Annotated[str, Field(description="Region of the bucket.", pattern=REGION_PATTERN, max_length=63)] = (
        "us-east-1"
    )
    include: Annotated[
        tuple[_PATTERN, ...],
        Field(
            description="Patterns to keep, below the prefix: * stops at '/', ** does not. Empty: all.",
            max_length=_MOST_PATTERNS,
        ),
    ] = ()
    exclude: Annotated[
        tuple[_PATTERN, ...],
        Field(description="Patterns to leave out. They override include.", max_length=_MOST_PATTERNS),
    ] = ()

    def plain(self) -> Source:
        """Return the source as nodes see it."""
        return Source.model_construct(**{name: getattr(self, name) for name in Source.model_fields})


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
