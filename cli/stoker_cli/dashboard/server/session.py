"""The session of one browser: a token that works once, a cookie, and a token for forms."""

import secrets
from collections.abc import Mapping


class BrowserSession:
    """The secrets of one run of `stoker dashboard`. ``port`` keeps the cookies of two runs apart."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = f"stoker_dashboard_{port}"
        self.csrf = secrets.token_urlsafe(32)
        self._login: str | None = secrets.token_urlsafe(32)
        self._value = secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        """The address that signs in once. Empty after its use."""
        return f"http://127.0.0.1:{self.port}/login?token={self._login}" if self._login else ""

    def redeem(self, token: str) -> str | None:
        """Return the value of the cookie for the login token, only the first time, else None."""
        if self._login is None or not same(token, self._login):
            return None
        self._login = None
        return self._value

    def owns(self, cookies: Mapping[str, str]) -> bool:
        """Return True if the cookies of a request are those of the signed-in browser."""
        return self._login is None and same(cookies.get(self.cookie, ""), self._value)


def same(given: str, secret: str) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(given.encode(errors="replace"), secret.encode())
