"""Handlers of the sign-in form, and tokens that users paste. A token goes to the API server only, and to no log."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from stoker_cli.access.cluster import DEFAULT
from stoker_cli.dashboard.cluster.user_sessions import RequestBudget, SessionsFull, UserSessions
from stoker_cli.dashboard.core.views import Frame
from stoker_cli.dashboard.pages import rendering
from stoker_cli.dashboard.server.app import user_app
from stoker_cli.dashboard.server.cluster_reader import ClusterReader
from stoker_cli.dashboard.server.guard import check_form, read_form
from stoker_cli.dashboard.server.updates import LiveUpdates
from stoker_kube.api import Kube
from stoker_kube.client import KubeClient
from stoker_kube.errors import Forbidden, KubeError, Unauthorized
from stoker_kube.resources import Kind

SELF_SUBJECTS = Kind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
MOST_TOKEN = 12_288  # characters; those of identity providers with many groups have some thousands
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")  # RFC 6750
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_UNNAMED = "a user who may not ask for their name"


@dataclass(frozen=True)
class UserToken:
    """A token, and the namespace that is shown if the user may not list all. Empty: not given."""

    token: str
    namespace: str = ""


def problem_of(given: UserToken) -> str:
    """Return what is wrong with the form of a token or a namespace, or an empty string."""
    if len(given.token) > MOST_TOKEN or not _TOKEN.fullmatch(given.token):
        return f"This is no token: a token has letters, digits and ._~+/=- only, at most {MOST_TOKEN:,} of them."
    if given.namespace and not _NAMESPACE.fullmatch(given.namespace):
        return "This is no name of a namespace: it has lower-case letters, digits and hyphens, at most 63."
    return ""


async def user_of(client: Kube) -> str:
    """Return the name of the client's user. Raises KubeError, such as Unauthorized for a wrong token."""
    try:
        review = await client.create(SELF_SUBJECTS, {})
    except Forbidden:  # the token is valid
        return _UNNAMED
    info = (review.get("status") or {}).get("userInfo") or {}
    return str(info.get("username") or _UNNAMED)


def namespace_of(user: str, given: str) -> str:
    """Return the given namespace, else that of a ServiceAccount."""
    kind, _, rest = user.partition("serviceaccount:")
    own = rest.partition(":")[0] if kind == "system:" else ""
    return given or (own if _NAMESPACE.fullmatch(own) else "") or DEFAULT


COOKIE = "__Host-stoker-dashboard"  # browsers accept this prefix only with Secure, Path=/ and no Domain
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
_MOST_FORM = MOST_TOKEN + 4096  # bytes
_RATE, _BURST = 5.0, 30  # tries of all users together; each is a request to the API server
_PATIENCE = 8.0  # seconds; connections without a session end after 10
_SEE_OTHER = 303
_UNKNOWN = "The API server does not accept this token. It may have expired: make a new one."
_OUTAGE = "The API server did not answer. Try again later."
_FULL = "Too many users are signed in. Try again later."
_FAST = "Too many tries. Try again in a few seconds."
ClientOf = Callable[[str], KubeClient]  # for a token


class SignInHandlers:
    """The form, the check of its token, and the end of a session."""

    def __init__(self, client_of: ClientOf, sessions: UserSessions) -> None:
        self._client_of = client_of
        self._sessions = sessions
        self._budget = RequestBudget(_RATE, _BURST)

    async def form(self, _: Request) -> Response:
        """Show the form."""
        return HTMLResponse(rendering.sign_in("", ""))

    async def sign_in(self, request: Request) -> Response:
        """Check the token with the API server, and start a session."""
        if not self._budget.take():
            return HTMLResponse(rendering.sign_in(_FAST, ""), 429)
        try:
            fields = await read_form(request, _MOST_FORM)
        except HTTPException as error:
            return HTMLResponse(rendering.sign_in(str(error.detail), ""), error.status_code)
        given = UserToken(fields.get("token", "").strip(), fields.get("namespace", "").strip())
        if problem := problem_of(given):
            return HTMLResponse(rendering.sign_in(problem, ""), 400)
        try:
            key = await self._start(given)
        except Unauthorized:
            return HTMLResponse(rendering.sign_in(_UNKNOWN, given.namespace), 401)
        except (KubeError, TimeoutError):  # its message names addresses, and anybody may try
            return HTMLResponse(rendering.sign_in(_OUTAGE, given.namespace), 502)
        except SessionsFull:
            return HTMLResponse(rendering.sign_in(_FULL, given.namespace), 503)
        answer = RedirectResponse("/", _SEE_OTHER)
        answer.set_cookie(COOKIE, key, secure=True, httponly=True, samesite="strict", path="/")
        return answer

    async def _start(self, given: UserToken) -> str:
        client = self._client_of(given.token)
        async with asyncio.timeout(_PATIENCE):
            user = await user_of(client)
        reader = ClusterReader(client, namespace_of(user, given.namespace))
        frame = Frame(reader.data.namespace, secrets.token_urlsafe(32), user)
        reading = asyncio.create_task(reader.run())
        updates = LiveUpdates(reader, ended=reading.done)
        sign_out = Route(SIGN_OUT, self._sign_out(frame), methods=["POST"])
        try:
            return self._sessions.open(user, client, user_app(client, updates, reader, frame, [sign_out]), reading)
        except SessionsFull:
            reading.cancel()
            raise

    def _sign_out(self, frame: Frame) -> Callable[[Request], Awaitable[Response]]:
        async def sign_out(request: Request) -> Response:
            await check_form(request, frame)
            self._sessions.end(request.cookies.get(COOKIE, ""))
            answer = RedirectResponse(SIGN_IN, _SEE_OTHER)
            answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict", path="/")
            return answer

        return sign_out
