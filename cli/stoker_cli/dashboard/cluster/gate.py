"""The application in the cluster: checks every request, and gives it to the pages of its user."""

from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stoker_cli.dashboard.cluster.bounded_server import trust
from stoker_cli.dashboard.cluster.sign_in import COOKIE, SIGN_IN, SignInHandlers, user_of
from stoker_cli.dashboard.cluster.user_sessions import UserSession, UserSessions
from stoker_cli.dashboard.core.request_checks import SAFE_METHODS
from stoker_cli.dashboard.server.app import STATIC_ROUTE
from stoker_cli.dashboard.server.guard import POLICY_VIOLATION, foreign, with_headers
from stoker_kube.errors import KubeError, Unauthorized

HEALTH = "/healthz"
_FAST = "Too many requests. Try again in a few seconds."
_EVENTS = "/events"


class UserGate:
    """ASGI application. Only the form, its files and the health check need no session."""

    def __init__(self, sessions: UserSessions, handlers: SignInHandlers) -> None:
        self._sessions = sessions
        routes = [
            Route(SIGN_IN, handlers.form),
            Route(SIGN_IN, handlers.sign_in, methods=["POST"]),
            STATIC_ROUTE,
        ]
        self._open = Starlette(routes=routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] == "lifespan":
            await self._open(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        elif scope["path"] == HEALTH:
            await PlainTextResponse("ok")(scope, receive, send)
        else:
            app = await self._app(scope)
            await app(scope, receive, with_headers(send))

    async def _app(self, scope: Scope) -> ASGIApp:
        if refused := foreign(scope, ()):
            return PlainTextResponse(refused.message, refused.status)
        if scope["path"] == SIGN_IN or scope["path"].startswith("/static/"):
            return self._open
        key = HTTPConnection(scope).cookies.get(COOKIE, "")
        session = self._sessions.find(key)
        if session is None:
            return _to_sign_in(scope)
        trust(scope)
        if not await self._is_valid(session, key):
            return _to_sign_in(scope)
        if not session.budget.take():
            return PlainTextResponse(_FAST, 429)
        return session.app

    async def _is_valid(self, session: UserSession, key: str) -> bool:
        """Ask the API server now and then if the token is still valid, and end the session if not."""
        if not self._sessions.is_due(session):
            return True
        try:
            await user_of(session.client)
        except Unauthorized:
            self._sessions.end(key)
            return False
        except KubeError:  # an outage: the pages say so
            return True
        return True


def _to_sign_in(scope: Scope) -> Response:
    if scope["method"] in SAFE_METHODS and scope["path"] != _EVENTS:
        return RedirectResponse(SIGN_IN, 303)
    return PlainTextResponse("Not signed in.", 401)
