"""Who is the keeper of this node: the holder of a lock in the state folder. Pods that came later come first."""

import asyncio
import fcntl
import json
import os
import socket
from pathlib import Path

from stoker_sidecar.errors import HandoverFailed
from stoker_sidecar.keeper.takeover import messages as wire

_TRIES = 50
_AGAIN = 0.1


class Succession:
    """Files in ``folder``: keeper.lock, keeper.sock (the holder's), keepers.json (all identities by age)."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.identity = identity
        self.socket_path = folder / "keeper.sock"
        self._lock_path = folder / "keeper.lock"
        self._ages = folder / "keepers.json"
        self.lock = -1  # descriptor of the lock file while this keeper holds the lock

    def enter(self) -> None:
        """Take a place by age. Raises OSError."""
        self._ages.parent.mkdir(parents=True, exist_ok=True)
        with self._ages.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            order = wire.entered(self._order(), self.identity)
            # In place, since the lock is the file's. One that a crash cut short reads as empty: all are new then.
            file.truncate(0)
            file.write(json.dumps(order))

    def _order(self) -> list[str]:
        try:
            order = json.loads(self._ages.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # ValueError: the empty file of the first keeper
            return []
        return [str(identity) for identity in order] if isinstance(order, list) else []

    def is_before(self, other: str) -> bool:
        """Whether ``other`` is the younger one, to whom this keeper gives way."""
        return wire.is_younger(self._order(), other, self.identity)

    async def hold(self) -> None:
        """Become the node's keeper, whose predecessor died or never was. Raises HandoverFailed."""
        for _ in range(_TRIES):
            if self.try_hold():
                return
            await asyncio.sleep(_AGAIN)
        raise HandoverFailed(f"another keeper holds {self._lock_path}: it was faster")

    def try_hold(self) -> bool:
        """Become the node's keeper, unless another one lives. The kernel gives the lock back when this process ends."""
        if self.lock >= 0:
            return True
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self.lock = lock
        return True

    def receive(self, lock: int) -> None:
        """Become the node's keeper with the lock that its predecessor sent: it belongs to whoever has the descriptor."""
        self.lock = lock

    def let_go(self) -> None:
        """Be the node's keeper no more, unless the lock was sent to the next one."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def listen(self) -> socket.socket:
        """The socket for other keepers, of this user alone; the lock must be held. Raises OSError."""
        self.socket_path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.socket_path))
        self.socket_path.chmod(0o600)
        listener.listen()  # nobody can connect before
        return listener

    def connect(self) -> socket.socket:
        """To the keeper that holds the lock. Raises OSError while it is coming or going."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(str(self.socket_path))
        except OSError:
            connection.close()
            raise
        return connection
