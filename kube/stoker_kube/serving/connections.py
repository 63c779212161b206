"""Limits the connections of a server: in total and per address. Closes the oldest ones beyond the limits.

A connection is trusted once it shows a client certificate or makes a request that only an authorized caller can make.
Trusted connections have a separate pool, so that strangers cannot displace them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_MOST_KNOWN = 1024  # addresses


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of one port.

    ``strangers``, ``strangers_per_address``: connections that are not trusted. ``trusted``, ``trusted_per_address``:
    connections that are. ``seconds``: from accept to trust, TLS handshake included; on a port without trust, to the
    first complete request head. ``prefer_known``: new connections of an address with a trusted one before are exempt
    from the limit of an address. Set it only where no attacker can become trusted.
    """

    strangers: int = 64
    strangers_per_address: int = 8
    trusted: int = 0
    trusted_per_address: int = 0
    seconds: float = 5.0
    prefer_known: bool = True


class Connection:
    """An accepted connection. ``abort`` closes it at once."""

    __slots__ = ("abort", "address", "trusted")

    def __init__(self, address: str, abort: Callable[[], object]) -> None:
        self.address: Final = address
        self.abort = abort
        self.trusted = False


class Connections:
    """The open connections of one port, oldest first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits: Final = limits
        self._strangers: Final[dict[Connection, None]] = {}
        self._strangers_of: Final[Counter[str]] = Counter()
        self._trusted_of: Final[Counter[str]] = Counter()
        self._known: Final[dict[str, None]] = {}  # addresses that had a trusted connection, oldest first

    def admit(self, connection: Connection) -> Connection | None:
        """Add a new connection; return the one that must be closed for it, which may be itself.

        A new connection displaces an older one, so a client that asks at once is served during a flood of silent
        connections. With ``prefer_known``, a known address is exempt from the limit of an address and displaced last.
        """
        self._strangers[connection] = None
        self._strangers_of[connection.address] += 1
        if self._strangers_of[connection.address] > self.limits.strangers_per_address and not self._knows(connection):
            victim = next(one for one in self._strangers if one.address == connection.address)
        elif len(self._strangers) > self.limits.strangers:
            victim = min(self._strangers, key=self._precedence)  # the oldest among equals
        else:
            return None
        self.remove(victim)
        return victim

    def trust(self, connection: Connection) -> bool:
        """Move a connection to the trusted ones; return False if these are full."""
        if connection.trusted:
            return True
        address, limits = connection.address, self.limits
        if self._trusted_of[address] >= limits.trusted_per_address or self._trusted_of.total() >= limits.trusted:
            return False
        self.remove(connection)
        connection.trusted = True
        self._trusted_of[address] += 1
        self._known.pop(address, None)
        self._known[address] = None
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if connection.trusted:
            connection.trusted = False
            _decrease(self._trusted_of, connection.address)
        elif connection in self._strangers:
            del self._strangers[connection]
            _decrease(self._strangers_of, connection.address)

    def __len__(self) -> int:
        return len(self._strangers) + self._trusted_of.total()

    def _knows(self, connection: Connection) -> bool:
        return self.limits.prefer_known and connection.address in self._known

    def _precedence(self, connection: Connection) -> tuple[bool, int]:
        """Return the sort key for eviction: unknown addresses first, then those with the most connections."""
        return self._knows(connection), -self._strangers_of[connection.address]


def _decrease(counts: Counter[str], address: str) -> None:
    counts[address] -= 1
    if not counts[address]:
        del counts[address]
