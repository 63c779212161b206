"""Refuses foreign requests and forms, and adds the security headers to every answer."""

from collections.abc import Collection
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker_cli.dashboard.core.request_checks import (
    HEADERS,
    MOST_FORM_BYTES,
    RequestFacts,
    RequestRefusal,
    loopback_hosts,
    refusal,
)
from stoker_cli.dashboard.core.views import Frame
from stoker_cli.dashboard.server.session import BrowserSession, same

_OPEN = ("/login", "/static/")  # without a session: the login itself, and files of every release
_SIGN_IN = "Not signed in. Open the address that `stoker dashboard` printed, or run it again: each address works once."
POLICY_VIOLATION = 1008  # close code of a WebSocket


class RequestGuard:
    """ASGI middleware with the checks of ``core.request_checks`` and the session."""

    def __init__(self, app: ASGIApp, session: BrowserSession) -> None:
        self._app = app
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await (self._refused(scope) or self._app)(scope, receive, with_headers(send))

    def _refused(self, scope: Scope) -> Response | None:
        if refused := foreign(scope, loopback_hosts(self._session.port)):
            return PlainTextResponse(refused.message, refused.status)
        if scope["path"].startswith(_OPEN) or self._session.owns(HTTPConnection(scope).cookies):
            return None
        return PlainTextResponse(_SIGN_IN, 401)


def foreign(scope: Scope, own: Collection[str]) -> RequestRefusal | None:
    """Return why a request is refused before anything else. ``own``: accepted Host headers, empty for all."""
    headers = Headers(scope=scope)
    site, origin = headers.get("sec-fetch-site", ""), headers.get("origin", "")
    return refusal(RequestFacts(scope["method"], tuple(headers.getlist("host")), origin, site), own)


def with_headers(send: Send) -> Send:
    """Add the security headers to an answer."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sender


_FOREIGN = "This form belongs to another session. Load the page again."


async def read_form(request: Request, most_bytes: int = MOST_FORM_BYTES) -> dict[str, str]:
    """Return the first value of each field. Raises HTTPException."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise HTTPException(413, "The form is too large.")
    try:
        fields = parse_qs(body.decode(errors="replace"), max_num_fields=8)
    except ValueError as error:
        raise HTTPException(400, "The form has too many fields.") from error
    return {name: values[0] for name, values in fields.items()}


async def check_form(request: Request, frame: Frame) -> None:
    """Refuse a form without the token of the user's pages. Raises HTTPException."""
    if not same((await read_form(request)).get("csrf", ""), frame.csrf):
        raise HTTPException(403, _FOREIGN)
