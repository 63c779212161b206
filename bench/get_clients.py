"""CPU of GETs by Stoker's own client and by awscrt's: `python -m bench.get_clients` measures it (docs/adr/0022).

Each sample is a process of its own that GETs from versitygw, writes what comes and ends; the clients take turns, and
the CPU is that of the whole process, with awscrt's threads. awscrt is asked in three ways: its S3 client giving bodies
to a call-back, its S3 client writing whole objects to files by itself, and its HTTP connections, signed by Stoker.
"""

import argparse
import asyncio
import itertools
import multiprocessing
import resource
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import RawIOBase
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from awscrt import auth, http, io, s3

from bench.errors import BenchError
from bench.objects import paths, write_objects
from bench.scale import SMALL_BYTES, Corpus
from bench.server import BUCKET, REGION, S3Server
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.s3_requests import AccessKeys, BucketAddress, signed
from stoker_sidecar.store.s3_get import S3Getter

_PIECE = 8 * 1024 * 1024
_PREFIX = "clients"
_TO_FILES = "awscrt S3, to files"
_DATA = Path("/dev/shm")  # the server's, on tmpfs


class Case(NamedTuple):
    """Objects of one size, GETs of them, and how many of these are in flight at a time."""

    name: str
    corpus: Corpus
    gets: int
    in_flight: int
    clients: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """A server on loopback, and the folder that bodies are written to."""

    host: str
    port: int
    keys: AccessKeys
    folder: Path


Get = Callable[[str, int, Path], Awaitable[None]]  # key, bytes of the object, and the file for it


async def _own(target: Target) -> Get:
    async def keys() -> AccessKeys:
        return target.keys

    host = f"{target.host}:{target.port}"
    address = BucketAddress(BUCKET, REGION, f"http://{host}", "http", host, f"/{BUCKET}/")
    getter = S3Getter(address, keys, ConnectionSettings(), ssl.create_default_context())

    async def get(key: str, size: int, into: Path) -> None:
        with into.open("wb", buffering=0) as file:
            async with getter.get_range(key, 0, size, if_match="", whole=size < _PIECE) as body:
                await body.stream(lambda chunk: _write(file, chunk))

    return get


def _write(file: RawIOBase, chunk: bytes | memoryview) -> None:
    if file.write(chunk) != len(chunk):
        raise BenchError("the disk is full")


async def _crt_s3(target: Target, *, to_files: bool) -> Get:
    loop = asyncio.get_running_loop()
    provider = auth.AwsCredentialsProvider.new_static(target.keys.access_key_id, target.keys.secret_access_key)
    client = s3.S3Client(
        bootstrap=_bootstrap(),
        region=REGION,
        tls_mode=s3.S3RequestTlsMode.DISABLED,
        signing_config=s3.create_default_s3_signing_config(region=REGION, credential_provider=provider),
        part_size=_PIECE,
        throughput_target_gbps=100.0,  # by which it reckons how many connections it may have: 250
    )

    async def get(key: str, size: int, into: Path) -> None:
        small = size < _PIECE  # the type GET_OBJECT would ask for a range, to which S3 states no checksum
        done: asyncio.Future[Exception | None] = loop.create_future()
        headers = [("host", f"{target.host}:{target.port}")]
        with ExitStack() as stack:
            by_itself = to_files and small
            file = None if by_itself else stack.enter_context(into.open("wb", buffering=0))
            client.make_request(
                type=s3.S3RequestType.DEFAULT if small else s3.S3RequestType.GET_OBJECT,
                operation_name="GetObject",
                request=http.HttpRequest("GET", f"/{BUCKET}/{key}", http.HttpHeaders(headers)),
                recv_filepath=str(into) if by_itself else None,
                on_body=None if file is None else lambda chunk, **_: _write(file, chunk),
                on_done=lambda error, **_: loop.call_soon_threadsafe(done.set_result, error),
            )
            if (error := await done) is not None:
                raise error

    return get


async def _crt_http(target: Target) -> Get:
    bootstrap, idle = _bootstrap(), list[Any]()

    async def get(key: str, size: int, into: Path) -> None:
        new = http.HttpClientConnection.new
        connection = idle.pop() if idle else await asyncio.wrap_future(new(target.host, target.port, bootstrap))
        path, host = f"/{BUCKET}/{key}", f"{target.host}:{target.port}"
        headers = signed("GET", host, path, "", {}, target.keys, REGION, time.time())
        with into.open("wb", buffering=0) as file:
            stream = connection.request(
                http.HttpRequest("GET", path, http.HttpHeaders(list(headers.items()))),
                on_body=lambda chunk, **_: _write(file, chunk),
            )
            stream.activate()
            if (status := await asyncio.wrap_future(stream.completion_future)) != 200:
                raise BenchError(f"{key} was answered by {status}")
        idle.append(connection)

    return get


def _bootstrap() -> Any:
    group = io.EventLoopGroup(1)
    return io.ClientBootstrap(group, io.DefaultHostResolver(group))


CLIENTS: dict[str, Callable[[Target], Awaitable[Get]]] = {
    "Stoker's own": _own,
    "awscrt S3": lambda target: _crt_s3(target, to_files=False),
    _TO_FILES: lambda target: _crt_s3(target, to_files=True),
    "awscrt HTTP": _crt_http,
}


def cases(gets: int) -> list[Case]:
    """List what is measured: ``gets`` small objects, and as many bytes and more in ranges of 8 MiB."""
    by_all = tuple(CLIENTS)
    by_call_back = tuple(name for name in CLIENTS if name != _TO_FILES)  # the others are the same for ranges
    return [
        Case("objects of 100 KiB", Corpus(gets, SMALL_BYTES, 10), gets, 32, by_all),
        Case("ranges of 8 MiB", Corpus(8, _PIECE, 1), max(8, gets // 20), 8, by_call_back),
    ]


async def _cpu_of(client: str, target: Target, case: Case) -> float:
    """Make the GETs of a case; return the CPU seconds of this process for them."""
    get = await CLIENTS[client](target)
    keys = [f"{_PREFIX}/{path}" for path in paths(case.corpus)]
    await get(keys[0], case.corpus.size, target.folder / "first")
    work = itertools.islice(itertools.cycle(keys), case.gets)

    async def go_on(into: Path) -> None:
        for key in work:
            await get(key, case.corpus.size, into)
            _check(into, case.corpus.size, f"{key} by {client}")

    before = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(go_on(target.folder / str(number)) for number in range(case.in_flight)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _check(file: Path, size: int, what: str) -> None:
    if (found := file.stat().st_size) != size:
        raise BenchError(f"{what} came with {found} bytes where {size} are right")


def _child(result: Connection, client: str, target: Target, case: Case) -> None:
    result.send(asyncio.run(_cpu_of(client, target, case)))


def sample(client: str, target: Target, case: Case) -> float:
    """Return the CPU seconds that a process of its own takes. Raises BenchError when it does not end well."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=_child, args=(theirs, client, target, case))
    child.start()
    theirs.close()
    try:
        seconds = float(ours.recv())
    except EOFError:
        seconds = 0.0
    child.join()
    if child.exitcode:
        raise BenchError(f"a process that GETs by {client} ended with {child.exitcode}")
    return seconds


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m bench.get_clients", description=__doc__)
    found.add_argument("--rounds", type=int, default=5, help="samples of each client (default %(default)s)")
    found.add_argument("--gets", type=int, default=3000, help="small objects a sample (default %(default)s)")
    found.add_argument("--into", type=Path, default=Path("/dev/shm"), help="where bodies go (default %(default)s)")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all clients in turns and print medians; return the exit code."""
    options = parser().parse_args(argv)
    for case in cases(options.gets):
        with ExitStack() as stack:
            into, data = (
                Path(stack.enter_context(tempfile.TemporaryDirectory(dir=at))) for at in (options.into, _DATA)
            )
            server = stack.enter_context(S3Server(data))
            write_objects(server.bucket, _PREFIX, case.corpus)
            keys = AccessKeys(server.access_key, server.secret_key)
            _compare(case, Target("127.0.0.1", server.port, keys, into), options.rounds)
    return 0


def _compare(case: Case, target: Target, rounds: int) -> None:
    samples: dict[str, list[float]] = {client: [] for client in case.clients}
    for number in range(rounds):
        for client in case.clients if number % 2 == 0 else reversed(case.clients):
            samples[client].append(sample(client, target, case))
    first, gigabytes = median(next(iter(samples.values()))), case.gets * case.corpus.size / 1e9
    for client, seconds in samples.items():
        middle = median(seconds)
        each = f"{middle / case.gets * 1e3:7.2f} ms of CPU a GET, {middle / gigabytes:6.2f} s a GB"
        print(f"{case.name:20} {client:20} {each}, {middle / first:5.2f} x", flush=True)


if __name__ == "__main__":
    sys.exit(main())
