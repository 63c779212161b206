"""The web application: routes, errors as pages, and the guard around all of it."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from stoker_cli.dashboard.core.views import Frame
from stoker_cli.dashboard.pages import rendering
from stoker_cli.dashboard.server.actions import ActionHandlers
from stoker_cli.dashboard.server.cluster_reader import ClusterReader
from stoker_cli.dashboard.server.guard import RequestGuard
from stoker_cli.dashboard.server.pages_handler import PageHandlers, number
from stoker_cli.dashboard.server.permissions import UserPermissions
from stoker_cli.dashboard.server.session import BrowserSession
from stoker_cli.dashboard.server.updates import LiveUpdates
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_kube.client import KubeClient
from stoker_kube.errors import Forbidden, KubeError, NotFound

_USED = "This address works once, and was used before. If you did not use it, end `stoker dashboard` and run it again."
_OBJECT = "{namespace}/{name}"


def make_app(client: KubeClient, reader: ClusterReader, session: BrowserSession) -> Starlette:
    """Return the application for one user and one browser."""

    async def login(request: Request) -> Response:
        value = session.redeem(request.query_params.get("token", ""))
        if value is None and not session.owns(request.cookies):
            return PlainTextResponse(_USED, 403)
        answer = HTMLResponse(rendering.signed_in())
        if value is not None:
            answer.set_cookie(session.cookie, value, httponly=True, samesite="strict")
        return answer

    frame = Frame(reader.data.namespace, session.csrf)
    routes = [Route("/login", login), STATIC_ROUTE]
    return user_app(client, LiveUpdates(reader), reader, frame, routes, [Middleware(RequestGuard, session=session)])


def user_app(
    client: KubeClient,
    updates: LiveUpdates,
    reader: ClusterReader,
    frame: Frame,
    more: Sequence[Route],
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """Return the pages and actions of one user. ``more``: routes besides those."""
    pages = PageHandlers(client, reader, UserPermissions(client), frame)
    actions = ActionHandlers(client, frame)
    routes = [
        Route("/", pages.overview),
        Route("/datasets", pages.datasets),
        Route(f"/datasets/{_OBJECT}", pages.dataset),
        Route(f"/datasets/{_OBJECT}/{{action}}", actions.dataset, methods=["POST"]),
        Route("/nodes", pages.nodes),
        Route("/nodes/{name}", pages.node),
        Route("/jobs", pages.jobs),
        Route(f"/jobs/{_OBJECT}", pages.job),
        Route(f"/jobs/{_OBJECT}/release", actions.release_job, methods=["POST"]),
        Route("/pods", pages.pods),
        Route(f"/pods/{_OBJECT}", pages.pod),
        Route(f"/pods/{_OBJECT}/release", actions.release_pod, methods=["POST"]),
        Route("/events", _events(updates)),
        *more,
    ]
    failed = _error_page(frame)
    handlers = {HTTPException: failed, CliError: failed, KubeError: failed}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


async def static(request: Request) -> Response:
    """Return a static file."""
    name = request.path_params["name"]
    if name not in rendering.STATIC:
        raise HTTPException(404, "Not found.")
    return Response(rendering.static(name), media_type=rendering.STATIC[name])


STATIC_ROUTE = Route("/static/{name}", static)


def _events(updates: LiveUpdates) -> Callable[[Request], Awaitable[Response]]:
    async def events(request: Request) -> Response:
        """Stream changes since the revision of the page."""
        if updates.full:
            return PlainTextResponse("Too many open pages.", 503)
        return StreamingResponse(updates.stream(number(request, "since", 0)), media_type="text/event-stream")

    return events


def _error_page(frame: Frame) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def failed(request: Request, error: Exception) -> Response:
        sentence = error.detail if isinstance(error, HTTPException) else str(error)
        return HTMLResponse(rendering.message("Not done", sentence, frame, back="/"), _status(error))

    return failed


def _status(error: Exception) -> int:
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, CliError):
        return 404 if error.exit_code == NOT_FOUND else 400
    return 403 if isinstance(error, Forbidden) else 404 if isinstance(error, NotFound) else 502
