"""TLS for one who asks several others by the same name: who was asked before is known again, without certificates.

A whole handshake with certificates on both sides takes 4 ms of CPU of who asks and 2.4 of who answers, one that goes on
from an earlier connection a sixth of it. asyncio has no way to say which: it is said beside it, by ``asked``.
"""

import ssl
from contextvars import ContextVar

# The host:port to which the next connection of this task goes; empty: it is not said, and begins anew.
asked: ContextVar[str] = ContextVar("asked", default="")


class ResumingContext(ssl.SSLContext):
    """A client's context that goes on from the last connection to the same peer, where the peer allows it.

    What the peer proved by its certificate then it proved to this context, which trusts nobody else; who has another
    certificate now has forgotten the connection.
    """

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection: see SSLContext."""
        before: dict[str, ssl.SSLObject] = self.__dict__.setdefault("before", {})
        if (peer := asked.get()) and session is None and peer in before:
            session = before[peer].session
        begun = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if peer:
            before[peer] = begun
        return begun
