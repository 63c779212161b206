"""Signed-in users, in memory, and limits of their requests. A browser never gets its token back."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp

from stoker_kube.client import KubeClient


class RequestBudget:
    """A token bucket: ``burst`` requests at once, and ``rate`` per second."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = float(burst), clock()

    def take(self) -> bool:
        """Return True if a request is allowed now."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


MOST_SESSIONS = 64  # of all users: each has its own copy of what its user may read
MOST_OF_USER = 4
IDLE_SECONDS, LIFE_SECONDS = 1800.0, 28_800.0
CHECK_SECONDS = 60.0  # between two questions to the API server if the token is still valid
_RATE, _BURST = 10.0, 60  # requests of a session


@dataclass(eq=False)
class UserSession:
    """A signed-in browser. ``client`` uses the token of its user. Times are those of the clock of the sessions."""

    user: str
    client: KubeClient
    app: ASGIApp
    reading: "asyncio.Task[None]"
    budget: RequestBudget
    started: float
    used: float
    checked: float


class SessionsFull(Exception):  # noqa: N818 - no error of the program
    """Too many users are signed in."""


class UserSessions:
    """All sessions. Old ones end, and a user's oldest one ends for a new one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[str, UserSession] = {}

    def open(self, user: str, client: KubeClient, app: ASGIApp, reading: "asyncio.Task[None]") -> str:
        """Add a session, and return its identifier. Raises SessionsFull."""
        self.sweep()
        own = [key for key, session in self._sessions.items() if session.user == user]  # the oldest first
        for key in own[: max(0, len(own) - MOST_OF_USER + 1)]:
            self.end(key)
        if len(self._sessions) >= MOST_SESSIONS:
            raise SessionsFull
        now, key = self._clock(), secrets.token_urlsafe(32)
        budget = RequestBudget(_RATE, _BURST, self._clock)
        self._sessions[key] = UserSession(user, client, app, reading, budget, now, now, now)
        return key

    def find(self, key: str) -> UserSession | None:
        """Return the session of a browser, or None if it has none or it ended. It counts as used."""
        self.sweep()
        session = self._sessions.get(key)
        if session is not None:
            session.used = self._clock()
        return session

    def is_due(self, session: UserSession) -> bool:
        """Return True if the token is to be checked again, once per period."""
        due = self._clock() - session.checked >= CHECK_SECONDS
        session.checked = self._clock() if due else session.checked
        return due

    def end(self, key: str) -> None:
        """Forget a session with its token and its objects."""
        if session := self._sessions.pop(key, None):
            session.reading.cancel()

    def end_all(self) -> None:
        """Forget all sessions."""
        for key in list(self._sessions):
            self.end(key)

    def sweep(self) -> None:
        """End sessions that are unused, too old, or whose reader failed."""
        now = self._clock()
        for key, session in list(self._sessions.items()):
            old = now - session.started >= LIFE_SECONDS or now - session.used >= IDLE_SECONDS
            if old or session.reading.done():
                self.end(key)

    def __len__(self) -> int:
        return len(self._sessions)
