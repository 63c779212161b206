"""The leader lock of a node's keepers, in the state folder that all its pods share."""

import asyncio
import fcntl
import json
import os
import socket
from pathlib import Path

from stoker_sidecar.errors import TakeoverFailed
from stoker_sidecar.keeper.takeover import messages

_TRIES = 50
_AGAIN = 0.1


class LeaderLock:
    """The leader lock of one node, as one keeper sees it. The keeper of the newest pod has precedence.

    ``folder`` holds keeper.lock, keeper.sock (the leader's), keepers.json (the identities of all keepers by age).
    ``fd`` is the lock file's descriptor while this keeper holds the lock, else -1.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.identity = identity
        self.socket_path = folder / "keeper.sock"
        self._lock_path = folder / "keeper.lock"
        self._ages = folder / "keepers.json"
        self.fd = -1

    def register(self) -> None:
        """Register among the node's keepers, ordered by age. Raises OSError."""
        self._ages.parent.mkdir(parents=True, exist_ok=True)
        with self._ages.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            order = messages.registered(self._order(), self.identity)
            # In place, because the lock belongs to the file. A file cut short by a crash reads as empty: all keepers
            # are new then.
            file.truncate(0)
            file.write(json.dumps(order))

    def _order(self) -> list[str]:
        try:
            order = json.loads(self._ages.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # ValueError: the empty file of the first keeper
            return []
        return [str(identity) for identity in order] if isinstance(order, list) else []

    def gives_way_to(self, other: str) -> bool:
        """Return True if ``other`` is the newer keeper, which has precedence."""
        return messages.is_newer(self._order(), other, self.identity)

    async def acquire(self) -> None:
        """Become the node's keeper after the predecessor died, or as the first one. Raises TakeoverFailed."""
        for _ in range(_TRIES):
            if self.try_acquire():
                return
            await asyncio.sleep(_AGAIN)
        raise TakeoverFailed(f"another keeper holds {self._lock_path}: it was faster")

    def try_acquire(self) -> bool:
        """Become the node's keeper, unless another one lives. The kernel releases the lock when this process ends."""
        if self.fd >= 0:
            return True
        fd = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self.fd = fd
        return True

    def receive(self, fd: int) -> None:
        """Become the node's keeper with the predecessor's lock: a copy of a descriptor also holds it."""
        self.fd = fd

    def release(self) -> None:
        """Release the lock, unless it was sent to the successor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def listen(self) -> socket.socket:
        """Open the socket for other keepers of this user. The lock must be held. Raises OSError."""
        self.socket_path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.socket_path))
        self.socket_path.chmod(0o600)
        listener.listen()  # no client can connect before
        return listener

    def connect(self) -> socket.socket:
        """Connect to the keeper that holds the lock. Raises OSError while it starts or ends."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(str(self.socket_path))
        except OSError:
            connection.close()
            raise
        return connection
