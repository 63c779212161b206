"""The lock that says which keeper serves this node, in the state folder that the keepers of all its pods share."""

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
    """The leader lock of one node, as one keeper sees it; the keeper of the newest pod goes first.

    ``folder`` holds keeper.lock, keeper.sock (the holder's), keepers.json (the identities of all keepers by age).
    ``fd``: descriptor of the lock file while this keeper holds the lock, else -1.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.identity = identity
        self.socket_path = folder / "keeper.sock"
        self._lock_path = folder / "keeper.lock"
        self._ages = folder / "keepers.json"
        self.fd = -1

    def register(self) -> None:
        """Take a place by age among the node's keepers. Raises OSError."""
        self._ages.parent.mkdir(parents=True, exist_ok=True)
        with self._ages.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            order = messages.registered(self._order(), self.identity)
            # In place, since the lock is the file's. One that a crash cut short reads as empty: all are new then.
            file.truncate(0)
            file.write(json.dumps(order))

    def _order(self) -> list[str]:
        try:
            order = json.loads(self._ages.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # ValueError: the empty file of the first keeper
            return []
        return [str(identity) for identity in order] if isinstance(order, list) else []

    def gives_way_to(self, other: str) -> bool:
        """Tell whether ``other`` is the newer keeper, which goes first."""
        return messages.is_newer(self._order(), other, self.identity)

    async def acquire(self) -> None:
        """Become the node's keeper, whose predecessor died or never was. Raises TakeoverFailed."""
        for _ in range(_TRIES):
            if self.try_acquire():
                return
            await asyncio.sleep(_AGAIN)
        raise TakeoverFailed(f"another keeper holds {self._lock_path}: it was faster")

    def try_acquire(self) -> bool:
        """Become the node's keeper, unless another one lives. The kernel gives the lock back when this process ends."""
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
        """Become the node's keeper with the lock that the predecessor sent: a copy of a descriptor holds it, too."""
        self.fd = fd

    def release(self) -> None:
        """Be the node's keeper no more, unless the lock was sent to the successor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def listen(self) -> socket.socket:
        """Open the socket for other keepers, of this user alone; the lock must be held. Raises OSError."""
        self.socket_path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.socket_path))
        self.socket_path.chmod(0o600)
        listener.listen()  # nobody can connect before
        return listener

    def connect(self) -> socket.socket:
        """Connect to the keeper that holds the lock. Raises OSError while it is coming or going."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(str(self.socket_path))
        except OSError:
            connection.close()
            raise
        return connection
