"""aiobotocore's HTTP session, with an end to what an endpoint may answer: anyone who may make a Dataset chooses it."""

import re
from typing import Any

from aiobotocore.httpsession import AIOHTTPSession

from stoker_sidecar.errors import ServerError

# Bytes of a response that is read whole: a page of a listing, an error. A page of the longest keys has 4 MB.
MOST_BODY = 16 * 1024 * 1024
_READ_SIZE = 256 * 1024
# What no S3 server sends and what makes an XML parser take more memory than the text has: entities, and encodings
# in which they could hide.
_ENTITIES = re.compile(rb"<!DOCTYPE|<!ENTITY|\x00")
_ENCODING = re.compile(rb"""\A\s*(?:\xef\xbb\xbf)?<\?xml[^>]*\sencoding\s*=\s*["'](?!utf-8["'])""", re.IGNORECASE)


class BoundedHTTPSession(AIOHTTPSession):
    """Reads bodies that are read whole up to MOST_BODY. Raises ServerError for a longer one, and for entities."""

    async def send(self, request: Any) -> Any:
        """Send a request; its body is read here unless it is for the caller to read."""
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
            raise ServerError(
                f"{response.url.host} answers with more than {MOST_BODY // 2**20} MiB where S3 sends a page of 1,000 "
                "objects: check source.endpoint",
                temporary=False,
            )
    if _ENTITIES.search(body) or _ENCODING.search(body):
        raise ServerError(f"{response.url.host} answers with XML that no S3 server sends", temporary=False)
    return bytes(body)
