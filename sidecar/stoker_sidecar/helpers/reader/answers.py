"""Answers one question about a version, within limits of memory and CPU. It never raises, for any file content."""

import logging
import os
import resource
import signal
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from stoker_orders.packed_map import pack_map
from stoker_orders.sample_index import NoSamplesError
from stoker_orders.sample_map import ListedFile, SampleMap, make_map
from stoker_orders.sampling_plan import SampleFiles
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.reader_protocol import (
    MOST_INDEX,
    MOST_LIST,
    MOST_SENTENCE,
    Answer,
    KindsAnswer,
    KindsQuestion,
    LayoutAnswer,
    LayoutQuestion,
    ListMissing,
    MapAnswer,
    MapQuestion,
    ModelRow,
    Question,
    ReadRefusal,
    RunRow,
    Unreadable,
    shapes_of,
)
from stoker_tuning.model_files.formats import MOST_HEAD, MOST_TAIL
from stoker_tuning.model_files.recognition import recognise
from stoker_tuning.training.layout import DatasetLayout, FileFact, make_layout
from stoker_tuning.vocabulary import ModelFileKind

MOST_MEMORY = 384 * 1024**2  # bytes of address space with code and libraries; a list of 1.3 million paths takes 280 MiB
_GRACE_SECONDS = 3  # of CPU between the exception and the kernel's kill, for calls that do not return
_MOST_FILES = 64


class CpuUsedUp(BaseException):
    """The process has used up its CPU time."""


def limit(seconds: int) -> None:
    """Limit this process permanently. CpuUsedUp is raised after ``seconds`` of CPU."""
    signal.signal(signal.SIGXCPU, _used_up)
    bounds = {
        resource.RLIMIT_AS: (MOST_MEMORY, MOST_MEMORY),
        resource.RLIMIT_CPU: (seconds, seconds + _GRACE_SECONDS),
        resource.RLIMIT_NOFILE: (_MOST_FILES, _MOST_FILES),
        resource.RLIMIT_NPROC: (0, 0),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    for kind, bound in bounds.items():
        most = resource.getrlimit(kind)[1]
        soft, hard = (one if most == resource.RLIM_INFINITY else min(one, most) for one in bound)
        resource.setrlimit(kind, (soft, hard))


def _used_up(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # it repeats each second
    raise CpuUsedUp


class MissingList(NamedTuple):
    """The inode of the file list or the index, which is not on the disk yet."""

    ino: int


def read_map(paths: VersionPaths, said: SampleFiles) -> SampleMap | MissingList:
    """Return a version's samples. Raises NoSamplesError, CacheError and OSError."""
    with closing(Manifest.open(paths.manifest)) as manifest:
        listed = b""
        if path := said.described_by:
            entry = manifest.find(path)
            if entry is None or entry.is_dir:
                raise NoSamplesError(f"the Dataset has no file {path!r}, which should list the samples")
            most = MOST_INDEX if said.index else MOST_LIST
            if entry.size > most:
                raise NoSamplesError(f"the list {path!r} is larger than {most >> 20} MiB: list fewer samples")
            try:
                listed = _content(paths, path, most)
            except FileNotFoundError:
                return MissingList(entry.ino)
        return make_map(said, _files(manifest), listed)


def _content(paths: VersionPaths, path: str, most: int) -> bytes:
    """Read up to ``most`` bytes of a file in the tree. Raises OSError."""
    descriptor = open_file_beneath(paths.root, paths.tree / path)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def _files(manifest: Manifest) -> Iterator[ListedFile]:
    return (ListedFile(entry.ino, path, entry.size) for path, entry in manifest.walk() if not entry.is_dir)


def kind_of_file(paths: VersionPaths, path: str) -> ModelFileKind:
    """Return the kind of a version's complete file from 64 KiB at each end. Raises OSError, also for a missing file.

    It follows no link, and loads no model.
    """
    descriptor = open_file_beneath(paths.root, paths.tree / path)
    try:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, MOST_HEAD, 0)
        tail = os.pread(descriptor, MOST_TAIL, max(0, size - MOST_TAIL))
    finally:
        os.close(descriptor)
    return recognise(path, head, tail).kind


# Files of the largest version with a layout: it takes 5 us per file, and a reader 3 bits.
MOST_FILES = 10_000_000


def read_layout(paths: VersionPaths, *, by_chunk: bool) -> DatasetLayout | None:
    """Return the layout of a version, or None for too many files. Raises CacheError."""
    with closing(Manifest.open(paths.manifest)) as manifest:
        if manifest.info.files > MOST_FILES:
            return None
        return make_layout(_facts(manifest), by_chunk=by_chunk)


def _facts(manifest: Manifest) -> Iterator[FileFact]:
    for path, entry in manifest.walk():
        if not entry.is_dir:
            yield FileFact(entry.ino, path.decode(errors="replace"), entry.size)


Arrays = Sequence["array[int]"]
_log = logging.getLogger("stoker.reader")


def answer(question: Question) -> tuple[Answer, Arrays]:
    """Return the answer and its arrays."""
    try:
        return _answer(question)
    except NoSamplesError as error:
        return ReadRefusal(message=_sentence(error)), ()
    except MemoryError:
        why = f"reading its files takes more than {MOST_MEMORY >> 20} MiB of memory"
        return ReadRefusal(message=f"{why}: list fewer samples, or name fewer files", limit=True), ()
    except CpuUsedUp:
        why = f"reading its files takes more than {question.seconds} s of CPU"
        return ReadRefusal(message=f"{why}: list fewer samples, or name fewer files", limit=True), ()
    except (SidecarError, OSError) as error:
        return Unreadable(message=_sentence(error)), ()
    except Exception as error:  # noqa: BLE001 -- a bug that some content triggers; logged, and reported
        _log.exception("a question about %s is not answered", question.folder)
        return ReadRefusal(
            message=_sentence(f"its files cannot be read, please report this: {error!r}"), limit=True
        ), ()


def _answer(question: Question) -> tuple[Answer, Arrays]:
    paths = VersionPaths(Path(question.folder))
    match question:
        case MapQuestion():
            return _map(paths, question)
        case LayoutQuestion():
            return _layout(paths, question)
        case KindsQuestion():
            return KindsAnswer(kinds=tuple(_kind(paths, path) for path in question.paths)), ()


def _map(paths: VersionPaths, question: MapQuestion) -> tuple[Answer, Arrays]:
    said = question.files
    files = SampleFiles(said.layout, said.path, said.per_shard, said.record_bytes, said.header_bytes, said.index)
    samples = read_map(paths, files)
    if isinstance(samples, MissingList):
        return ListMissing(ino=samples.ino), ()
    if len(samples) > question.most:
        raise NoSamplesError(f"{len(samples)} samples are more than the {question.most} that this node has left")
    kind, numbers, arrays = pack_map(samples)
    return MapAnswer(shapes_of(arrays), kind, numbers), arrays


def _layout(paths: VersionPaths, question: LayoutQuestion) -> tuple[Answer, Arrays]:
    layout = read_layout(paths, by_chunk=question.by_chunk)
    if layout is None:
        return ReadRefusal(message=f"it has more than {MOST_FILES} files"), ()
    arrays = [] if layout.unit_ends is None else [layout.unit_ends]
    return _layout_answer(layout, arrays), arrays


def _layout_answer(layout: DatasetLayout, arrays: Arrays) -> LayoutAnswer:
    runs = (RunRow(run.first, run.group, run.split, run.source, run.files, run.bytes, run.units) for run in layout.runs)
    models = (ModelRow(ino, *file) for ino, file in layout.model_files.items())
    return LayoutAnswer(shapes_of(arrays), tuple(runs), tuple(models), layout.first_file)


def _kind(paths: VersionPaths, path: str) -> ModelFileKind | None:
    try:
        return kind_of_file(paths, path)
    except (OSError, ValueError) as error:
        _log.debug("the model file %s is not looked at this time: %s", path, error)
        return None


def _sentence(error: object) -> str:
    return str(error).encode(errors="replace").decode()[:MOST_SENTENCE]
