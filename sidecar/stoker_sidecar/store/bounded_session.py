"""aiobotocore's HTTP session, with an end to what an endpoint may answer."""

from typing import Any

from aiobotocore.httpsession import AIOHTTPSession

from stoker_sidecar.store.core.answers import MOST_BODY, check_size, check_xml

_READ_SIZE = 256 * 1024


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
        check_size(response.url.host, len(body))
    check_xml(response.url.host, body)
    return bytes(body)
