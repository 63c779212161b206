"""The agent's client of readers: the keeper starts one for each connection, and it answers one question."""

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeVar

from stoker_orders.packed_map import PackedMap, unpack_map
from stoker_orders.sample_index import NoSamplesError
from stoker_orders.sample_map import SampleMap
from stoker_orders.sampling_plan import SampleFiles
from stoker_sidecar.agent.questions.reading.read_failures import ReadFailures
from stoker_sidecar.errors import CacheDiskFailed, CacheError, ProtocolError, ReaderUnavailable, ReadRefused
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.wire.reader_protocol import (
    MOST_LINE,
    Answer,
    ArrayShape,
    KindsAnswer,
    KindsQuestion,
    LayoutAnswer,
    LayoutQuestion,
    ListMissing,
    MapAnswer,
    MapQuestion,
    Question,
    ReadRefusal,
    SampleFilesText,
    Unreadable,
    decode_answer,
    encode,
)
from stoker_tuning.training.layout import DatasetLayout, FileRun, ModelFile
from stoker_tuning.vocabulary import ModelFileKind

log = logging.getLogger(__name__)

AT_ONCE = 3  # readers, of 256 MiB each


class ReadTurns:
    """Grants turns.

    ``at_once`` in parallel, one per namespace, to the namespace with the longest wait since its last turn.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._busy: set[str] = set()
        self._last: dict[str, int] = {}  # the last turn of each namespace
        self._clock = count(1)

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(granted)
        self._grant()
        try:
            await granted
            yield
        finally:
            self._release(namespace, granted)

    def _release(self, namespace: str, granted: "asyncio.Future[None]") -> None:
        if granted.done() and not granted.cancelled():
            self._busy.discard(namespace)
            self._free += 1
            self._forget(namespace)
        elif granted in self._waiting.get(namespace, ()):
            self._waiting[namespace].remove(granted)
            self._forget(namespace)
        self._grant()

    def _grant(self) -> None:
        while self._free:
            idle = [namespace for namespace in self._waiting if namespace not in self._busy]
            namespace = min(idle, key=lambda one: self._last.get(one, 0), default=None)
            if namespace is None:
                return
            granted = self._waiting[namespace].popleft()
            if not granted.cancelled():
                self._last[namespace] = next(self._clock)
                self._busy.add(namespace)
                self._free -= 1
                granted.set_result(None)
            self._forget(namespace)

    def _forget(self, namespace: str) -> None:
        """Forget a namespace without waiting questions and a turn."""
        if not self._waiting.get(namespace):
            self._waiting.pop(namespace, None)
            if namespace not in self._busy:
                self._last.pop(namespace, None)


# Seconds of CPU: a manifest takes 100 bytes per file, and a file at most 10 us. An index of 8 MiB takes three seconds.
_SECONDS, _BYTES_PER_SECOND = 8, 8_000_000
# Wall clock seconds per second of CPU, and for the start, on a busy node.
_WALL, _START = 4.0, 20.0
_TRIES, _TRY_SECONDS = 3, 1.0
_CHUNK = 256 * 1024  # bytes, a multiple of the number size
T = TypeVar("T")
Arrays = tuple["array[int]", ...]


class ListNeeded(NamedTuple):
    """The inode of the file list or the index, which is not on the disk yet."""

    ino: int


class VersionReader:
    """Asks unprivileged readers about files of versions. Not thread-safe.

    A connection to ``socket`` starts a reader. Namespaces take turns. A question that exceeds the reader's limits is
    not repeated.
    """

    def __init__(self, socket: Path, failures: ReadFailures | None = None) -> None:
        self._socket = socket
        self._failures = failures or ReadFailures()
        self._turns = ReadTurns()
        self._receiving = asyncio.Lock()  # one answer with arrays at a time

    async def samples(
        self, namespace: str, paths: VersionPaths, files: SampleFiles, left: Callable[[], int]
    ) -> SampleMap | ListNeeded:
        """Find the samples of a version. ``left`` returns the current limit on their number.

        Raises NoSamplesError with a sentence for a permanent failure; ReaderUnavailable and CacheError for a temporary
        one.
        """
        text = SampleFilesText(
            files.layout, files.path, files.per_shard, files.record_bytes, files.header_bytes, files.index
        )
        question = MapQuestion(str(paths.folder), _seconds(paths), text, max(0, left()))

        def build(answer: Answer, arrays: Arrays) -> SampleMap | ListNeeded:
            if isinstance(answer, ListMissing):
                return ListNeeded(answer.ino)
            assert isinstance(answer, MapAnswer), "checked by decode_answer"
            return unpack_map(PackedMap(answer.kind, answer.numbers, arrays), left())

        try:
            return await self._answered(namespace, question, build)
        except ReadRefused as error:
            raise NoSamplesError(str(error)) from error

    async def layout(self, namespace: str, paths: VersionPaths, *, by_chunk: bool) -> DatasetLayout:
        """Return the layout of a version.

        Raises ReadRefused permanently; ReaderUnavailable and CacheError temporarily.
        """
        return await self._answered(namespace, LayoutQuestion(str(paths.folder), _seconds(paths), by_chunk), _layout)

    async def kinds(
        self, namespace: str, paths: VersionPaths, files: Sequence[str]
    ) -> tuple[ModelFileKind | None, ...]:
        """Return the kinds of model files; None: not on the disk. Raises as ``layout`` does."""
        return await self._answered(namespace, KindsQuestion(str(paths.folder), _SECONDS, tuple(files)), _kinds)

    async def _answered(self, namespace: str, question: Question, build: "Callable[[Answer, Arrays], T]") -> T:
        if why := self._failures.why(question):
            raise ReadRefused(why)
        for attempt in range(_TRIES):
            try:
                async with self._turns.turn(namespace), asyncio.timeout(_START + _WALL * question.seconds):
                    return await self._ask(question, build)
            except (EOFError, TimeoutError, ProtocolError, ConnectionResetError) as error:
                log.warning("files of %s are not read: %s", question.folder, _why(error))
                await asyncio.sleep(_TRY_SECONDS * (attempt + 1))
        why = f"their reader was ended {_TRIES} times before it answered: list fewer samples, or name fewer files"
        self._failures.remember(question, why, lasting=False)
        raise ReadRefused(why)

    async def _ask(self, question: Question, build: "Callable[[Answer, Arrays], T]") -> T:
        """Ask a newly started reader. Raises also EOFError and OSError if the reader was ended."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=MOST_LINE)
        except OSError as error:
            raise ReaderUnavailable(f"no reader is started: {error}") from error
        try:
            writer.write(encode(question))
            answer = await in_thread(decode_answer, await _line(reader), question)
            if isinstance(answer, ReadRefusal):
                if answer.limit:
                    self._failures.remember(question, answer.message, lasting=True)
                raise ReadRefused(answer.message)
            if isinstance(answer, Unreadable):
                raise CacheError(answer.message)
            async with self._receiving:
                arrays = [await _received(reader, shape) for shape in answer.shapes]
                return await in_thread(build, answer, tuple(arrays))
        finally:
            writer.close()  # this ends the reader


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readline()
    except ValueError as error:
        raise ProtocolError("the reader's answer is longer than it may be") from error
    if not line.endswith(b"\n"):
        raise EOFError("the reader ended")
    return line


async def _received(reader: asyncio.StreamReader, shape: ArrayShape) -> "array[int]":
    """Receive an array in parts, so that memory holds it once."""
    numbers, left = array(shape.code), shape.size
    while left:
        part = await reader.readexactly(min(_CHUNK, left))
        numbers.frombytes(part)
        left -= len(part)
    return numbers


def _layout(answer: Answer, arrays: Arrays) -> DatasetLayout:
    """Build the layout from an answer. Raises ReadRefused if its arrays do not match."""
    assert isinstance(answer, LayoutAnswer), "checked by decode_answer"
    if any(one.typecode != "Q" or not one for one in arrays) or len(arrays) > 1:
        raise ReadRefused("the layout has other units than it should have")
    runs = [
        FileRun(row.first, row.group, row.split, row.source, row.files, row.bytes, row.units) for row in answer.runs
    ]
    models = {row.ino: ModelFile(row.path, row.kind, row.size) for row in answer.models}
    return DatasetLayout(runs, models, arrays[0] if arrays else None, answer.first_file)


def _kinds(answer: Answer, arrays: Arrays) -> tuple[ModelFileKind | None, ...]:
    assert isinstance(answer, KindsAnswer), "checked by decode_answer"
    return answer.kinds


def _seconds(paths: VersionPaths) -> int:
    """Return a reader's CPU seconds. Raises CacheDiskFailed."""
    try:
        return min(3600, _SECONDS + paths.manifest.stat().st_size // _BYTES_PER_SECOND)
    except OSError as error:
        raise CacheDiskFailed(f"the manifest {paths.manifest} cannot be read: {error.strerror}") from error


def _why(error: Exception) -> str:
    return "its time is over" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
