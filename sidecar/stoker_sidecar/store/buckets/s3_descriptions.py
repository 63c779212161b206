"""botocore in less memory: bounded responses, and service descriptions without unused parts (9 of 16 MB)."""

from functools import cache
from pathlib import PurePath
from typing import Any

from aiobotocore.httpsession import AIOHTTPSession
from botocore.loaders import JSONFileLoader, Loader

from stoker_sidecar.store.core.s3_responses import MOST_BODY, check_size, check_xml

_READ_SIZE = 256 * 1024


class BoundedHTTPSession(AIOHTTPSession):
    """Limits bodies that are read whole to MOST_BODY. Raises ServerError for longer ones and for XML entities."""

    async def send(self, request: Any) -> Any:
        """Send a request. Read the body of its response, unless the caller streams it."""
        streams, request.stream_output = request.stream_output, True
        response: Any = await super().send(request)
        if not streams or response.status_code >= 300:
            response._content = await _read(response.raw)
        return response


async def _read(response: Any) -> bytes:
    body = bytearray()
    while data := await response.content.read(_READ_SIZE):
        body += data
        if len(body) > MOST_BODY:
            response.close()
        check_size(response.url.host, len(body))
    check_xml(response.url.host, body)
    return bytes(body)


# The services in use: for objects, and for credentials (including a person's, with `stoker mount`). For any other
# service, botocore makes the address by the rule of its partition.
_ASKED = frozenset({"oidc", "portal.sso", "s3", "sts"})


class LeanFiles(JSONFileLoader):
    """Reads botocore's files: descriptions without documentation, and endpoints of the services in use only."""

    def load_file(self, file_path: str) -> Any:
        """Return the content of a file; None if it does not exist. ``file_path`` has no ``.json``."""
        found = super().load_file(file_path)
        if found is not None and PurePath(file_path).name == "endpoints":
            for partition in found["partitions"]:
                services = partition["services"]
                partition["services"] = {name: services[name] for name in services.keys() & _ASKED}
        return lean(found)


def lean(description: Any) -> Any:
    """Return a description without documentation, in plain dictionaries. botocore's take twice the memory. Pure."""
    if isinstance(description, dict):
        return {
            name: "" if name == "documentation" and isinstance(value, str) else lean(value)
            for name, value in description.items()
        }
    if isinstance(description, list):
        return [lean(value) for value in description]
    return description


def read_descriptions() -> None:
    """Read botocore's files that the first client needs. Blocks.

    This takes 0.12 s of CPU once per process, and longer if the files are not in the page cache.
    """
    models = descriptions()
    models.load_data("endpoints")
    for kind in ("service-2", "endpoint-rule-set-1"):
        models.load_service_model("s3", kind)


@cache
def descriptions() -> Loader:
    """Return the shared loader. Without it, each client takes 3 MB and 0.2 s of CPU for S3's description."""
    return Loader(file_loader=LeanFiles())
