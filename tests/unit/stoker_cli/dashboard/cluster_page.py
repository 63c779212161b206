"""The page in the cluster, with users who sign in by token."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import httpx2
from starlette.testclient import TestClient

from stoker_cli.dashboard.cluster.gate import UserGate
from stoker_cli.dashboard.cluster.sign_in import COOKIE, SELF_SUBJECTS, SIGN_IN, SignInHandlers
from stoker_cli.dashboard.cluster.user_sessions import UserSessions
from stoker_kube.api import Object
from stoker_kube.client import KubeClient
from stoker_kube.errors import Unauthorized
from stoker_kube.resources import Kind
from tests.support.waiting import wait_until
from tests.unit.stoker_cli.dashboard.users import ADMIN_READS, TENANT_READS, Rights, UserKube, cluster

HOST = "stoker.example"
ORIGIN = f"https://{HOST}"
READER = "system:serviceaccount:vision:reader"
WRITE_ALL: Rights = dict.fromkeys(("datasets", "pods"), ("*",))
# Token: user, rights to read and to write.
USERS: dict[str, tuple[str, Rights, Rights]] = {
    "admin-token": ("admin", ADMIN_READS, WRITE_ALL),
    "reader-token": (READER, TENANT_READS, {}),
    "nobody-token": ("nobody", {}, {}),
}


class TokenUser(UserKube):
    """The API server for requests with one token."""

    def __init__(self, name: str, reads: Rights, writes: Rights) -> None:
        super().__init__(reads, writes)
        self.name = name
        self.valid = True

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        if kind != SELF_SUBJECTS:
            return await super().create(kind, body, namespace)
        self._admit("create", kind)
        if not self.valid:
            raise Unauthorized(401, "Unauthorized", "Unauthorized")
        return {"status": {"userInfo": {"username": self.name}}}


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SharedPage:
    """The page of one cluster. Each token has its own rights to the same objects."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.sessions = UserSessions(self.clock)
        self.objects = cluster()
        self.users = {token: TokenUser(*facts) for token, facts in USERS.items()}
        self.app = UserGate(self.sessions, SignInHandlers(self._client_of, self.sessions))
        self.portal: Any = None

    def _client_of(self, token: str) -> KubeClient:
        stranger = TokenUser("stranger", {}, {})
        stranger.valid = token in self.users
        user = self.users.setdefault(token, stranger)
        user._objects = self.objects._objects
        return cast(KubeClient, user)

    def browser(self) -> "TokenBrowser":
        """Open a browser without a session."""
        return TokenBrowser(self)


@contextmanager
def shared_page() -> Iterator[SharedPage]:
    """Serve the page. Its readers run in the background."""
    page = SharedPage()
    with TestClient(page.app) as client:
        page.portal = client.portal
        yield page


class TokenBrowser:
    """A browser at the page in the cluster."""

    def __init__(self, page: SharedPage) -> None:
        self.page = page
        self.http = TestClient(page.app, base_url=ORIGIN, follow_redirects=False)
        self.http.portal = page.portal

    def submit(self, token: str, namespace: str = "", **headers: str) -> httpx2.Response:
        """Send the form."""
        data = {"token": token, "namespace": namespace}
        return self.http.post(SIGN_IN, data=data, headers={"origin": ORIGIN} | headers)

    def sign_in(self, token: str, namespace: str = "") -> "TokenBrowser":
        """Sign in, and wait until the cluster is read."""
        answer = self.submit(token, namespace)
        assert answer.status_code == 303, answer.text
        wait_until(lambda: "not read completely yet" not in self.text("/"))
        return self

    def get(self, path: str) -> httpx2.Response:
        """Open a page."""
        return self.http.get(path)

    def text(self, path: str) -> str:
        """Return the HTML of a page, a tenth of a second later, so that polling stays within the limit of requests."""
        self.page.clock.now += 0.1
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    @property
    def csrf(self) -> str:
        """The token in the forms."""
        return self.text("/").partition('name="csrf" value="')[2].partition('"')[0]

    def post(self, path: str, csrf: str = "", **headers: str) -> httpx2.Response:
        """Press a button."""
        sent = {"origin": ORIGIN} | headers
        return self.http.post(path, data={"csrf": csrf or self.csrf}, headers=sent)

    @property
    def cookie(self) -> str:
        """The identifier of the session."""
        return str(self.http.cookies.get(COOKIE, ""))
