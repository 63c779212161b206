"""A versitygw on loopback with its data on tmpfs, and the requests in its access log."""

import os
import secrets
import socket
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from bench.errors import BenchError
from bench.measure import tree_cpu_seconds, wait_until
from bench.network import Host
from e2e.cluster.build import Programs

BUCKET = "bench"
REGION = "us-east-1"
_START_SECONDS = 20.0
# Fields of an access-log line, split at blanks: the operation and the key (keys here contain no blanks).
_OPERATION, _KEY = 7, 8
# Bytes that the server writes for a GET in addition to the body: the head of the answer, as measured, and its log line,
# which it writes twice. The log does not contain the size of an answer.
_HEAD_BYTES = 441
_LOG_WRITES = 2


class Request(NamedTuple):
    """One line of the access log: ``operation`` such as s3_GetObject, and the object's key or ``-``."""

    operation: str
    key: str


def parse_log(lines: Iterable[str]) -> list[Request]:
    """Return the requests of an access log, without its head line. Pure."""
    split = (line.split(" ", _KEY + 1) for line in lines if not line.startswith("log starts"))
    return [Request(fields[_OPERATION], fields[_KEY]) for fields in split if len(fields) > _KEY]


def sent_bytes(written: int, logged: int, requests: int) -> int:
    """Return the body bytes among all bytes that the server wrote for these requests and their log lines. Pure."""
    return max(0, written - _LOG_WRITES * logged - requests * _HEAD_BYTES)


@dataclass(frozen=True)
class LoggedRequests:
    """Requests that reached the server within a span of its log."""

    requests: tuple[Request, ...]

    @property
    def gets(self) -> int:
        """GetObject requests."""
        return self._count["s3_GetObject"]

    @property
    def lists(self) -> int:
        """ListObjects requests of either version."""
        return self._count["s3_ListObjectsV2"] + self._count["s3_ListObjects"]

    @property
    def fetched(self) -> Counter[str]:
        """Keys and their numbers of requests."""
        return Counter(request.key for request in self.requests if request.operation == "s3_GetObject")

    @property
    def _count(self) -> Counter[str]:
        return Counter(request.operation for request in self.requests)


class S3Server:
    """A versitygw process, as a context manager.

    ``folder`` is on tmpfs, so that dropping the page cache never slows the server. ``host`` is its network namespace.
    None is that of this process.
    """

    def __init__(self, folder: Path, host: Host | None = None) -> None:
        self._folder = folder
        self._address, self._within = (host.address, host.command) if host is not None else ("127.0.0.1", [])
        self._log = folder / "access.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.access_key = f"BENCH{secrets.token_hex(8).upper()}"
        self.secret_key = secrets.token_hex(20)
        self.port = _free_port()

    @property
    def endpoint(self) -> str:
        """The server's URL."""
        return f"http://{self._address}:{self.port}"

    @property
    def folder(self) -> Path:
        """Its folder on tmpfs."""
        return self._folder

    @property
    def bucket(self) -> Path:
        """The folder that the server serves as the bucket."""
        return self._folder / "data" / BUCKET

    @property
    def client_variables(self) -> dict[str, str]:
        """Environment variables with credentials for an AWS client.

        Settings for other servers are absent, because rclone refuses to start with a CA bundle.
        """
        keys = {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key, "AWS_REGION": REGION}
        return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | keys

    def __enter__(self) -> Self:
        self.bucket.mkdir(parents=True)
        keys = os.environ | {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        # Every real S3 server keeps connections alive.
        command = [*self._within, str(Programs().path("versitygw")), "--port", f"{self._address}:{self.port}"]
        command += ["--region", REGION, "--quiet", "--keep-alive", "--access-log", str(self._log)]
        command += ["posix", str(self.bucket.parent)]
        with (self._folder / "server.log").open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=keys, start_new_session=True)
        wait_until("the S3 server to answer", self._answers, _START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise BenchError(f"the S3 server ended: {(self._folder / 'server.log').read_text()}")
        with socket.socket() as probe:
            return probe.connect_ex((self._address, self.port)) == 0

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the server has used."""
        return tree_cpu_seconds(self._process.pid) if self._process is not None else 0.0

    def written(self) -> int:
        """Return the bytes that the server has written so far: answers and its log."""
        if self._process is None:
            return 0
        fields = Path(f"/proc/{self._process.pid}/io").read_text().split()
        return int(fields[fields.index("wchar:") + 1])

    def position(self) -> int:
        """Return the current end of the log, for a later call of ``asked``."""
        return self._log.stat().st_size

    def asked(self, since: int) -> LoggedRequests:
        """Return the requests after ``since``."""
        with self._log.open("rb") as log:
            log.seek(since)
            return LoggedRequests(tuple(parse_log(log.read().decode().splitlines())))

    def last_asked_at(self) -> float:
        """Return the time of the last write to the log, in seconds since 1970: the end of the latest request."""
        return self._log.stat().st_mtime


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
