"""The protocol between agent and reader: one question, then one answer as a JSON line, with raw arrays after it.

The reader parses tenants' files, which may have taken it over: answers are typed, and bounded by their question.
"""

from array import array
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from stoker_orders.packed_map import MOST_BYTES_PER_SAMPLE, MapKind
from stoker_orders.sampling_plan import SampleLayout
from stoker_sidecar.errors import ProtocolError
from stoker_tuning.training.split_names import SplitSource
from stoker_tuning.vocabulary import ModelFileKind, Split

SOCKET = "reader.sock"
MOST_QUESTION = 512 * 1024
MOST_LINE = 4 * 1024 * 1024  # 4,096 runs and the paths of 4,096 model files
MOST_INDEX = 8 * 1024 * 1024  # bytes
MOST_LIST = 64 * 1024 * 1024  # bytes of a list of files: ImageNet has 47 MiB of paths
MOST_PATHS = 64  # model files of a question
MOST_SENTENCE = 500
_MOST_UNITS = 8 * ((1 << 16) + 8)  # bytes of a layout's units
_SIZES = {"I": 4, "Q": 8}

FilePath = Annotated[str, Meta(max_length=4096)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class SampleFilesText(Struct, frozen=True, array_like=True):
    """The fields of SampleFiles."""

    layout: SampleLayout
    path: FilePath
    per_shard: Number
    record_bytes: Number
    header_bytes: Number
    index: FilePath


class _Question(Struct, frozen=True, tag_field="read"):
    """The common part of questions. ``folder`` is a version's in a cache folder. ``seconds`` is a CPU limit."""

    folder: FilePath
    seconds: Annotated[int, Meta(ge=1, le=3600)]


class MapQuestion(_Question, frozen=True, tag="samples"):
    """Ask for the files and bytes of the samples. ``most`` limits the samples in the answer."""

    files: SampleFilesText
    most: Number


class LayoutQuestion(_Question, frozen=True, tag="layout"):
    """Ask for the role of files in training. ``by_chunk`` means that chunks of large files are its units."""

    by_chunk: bool


class KindsQuestion(_Question, frozen=True, tag="kinds"):
    """Ask for the kinds of model files."""

    paths: Annotated[tuple[FilePath, ...], Meta(max_length=MOST_PATHS)]


Question = MapQuestion | LayoutQuestion | KindsQuestion


class ArrayShape(Struct, frozen=True, array_like=True):
    """An array after the line: the type code of a number, and their count."""

    code: Literal["I", "Q"]
    count: Number

    @property
    def size(self) -> int:
        """Size in bytes."""
        return _SIZES[self.code] * self.count


class _Answer(Struct, frozen=True, tag_field="answer"):
    """The common part of answers. ``shapes`` describes the arrays after the line."""

    shapes: tuple[ArrayShape, ...] = ()


class ReadRefusal(_Answer, frozen=True, tag="refused"):
    """The files cannot be read, permanently. ``limit`` means a memory or CPU limit, which a retry would hit again."""

    message: Annotated[str, Meta(max_length=MOST_SENTENCE)] = ""
    limit: bool = False


class Unreadable(_Answer, frozen=True, tag="unreadable"):
    """The disk, or Stoker's data on it, cannot be read now."""

    message: Annotated[str, Meta(max_length=MOST_SENTENCE)] = ""


class ListMissing(_Answer, frozen=True, tag="missing"):
    """The file list or the index is not on the disk yet. ``ino`` is its inode."""

    ino: Number = 0


class MapAnswer(_Answer, frozen=True, tag="samples"):
    """A PackedMap, followed by its arrays."""

    kind: MapKind = MapKind.FILES
    numbers: Annotated[tuple[Number, ...], Meta(max_length=4)] = ()


class RunRow(Struct, frozen=True, array_like=True):
    """A FileRun."""

    first: Number
    group: FilePath
    split: Split
    source: SplitSource
    files: Number
    bytes: Number
    units: Number


class ModelRow(Struct, frozen=True, array_like=True):
    """A ModelFile, with its inode."""

    ino: Number
    path: FilePath
    kind: ModelFileKind
    size: Number


class LayoutAnswer(_Answer, frozen=True, tag="layout"):
    """A DatasetLayout, followed by the ends of its units if chunks are units."""

    runs: Annotated[tuple[RunRow, ...], Meta(max_length=4096)] = ()
    models: Annotated[tuple[ModelRow, ...], Meta(max_length=4096)] = ()
    first_file: Number = 0


class KindsAnswer(_Answer, frozen=True, tag="kinds"):
    """The kind of each file, in the order of the question; null: it is not on the disk."""

    kinds: Annotated[tuple[ModelFileKind | None, ...], Meta(max_length=MOST_PATHS)] = ()


Answer = ReadRefusal | Unreadable | ListMissing | MapAnswer | LayoutAnswer | KindsAnswer

T = TypeVar("T")
_encoder = Encoder()
_questions: Decoder[Question] = Decoder(Question)
_answers: Decoder[Answer] = Decoder(Answer)


def encode(message: Question | Answer) -> bytes:
    """Encode a message as a line."""
    return _encoder.encode(message) + b"\n"


def decode_question(line: bytes) -> Question:
    """Decode a question. Raises ProtocolError."""
    return _decoded(_questions, line)


def decode_answer(line: bytes, question: Question) -> Answer:
    """Decode an answer that fits a question, including the size of its arrays. Raises ProtocolError."""
    answer = _decoded(_answers, line)
    if not _fits(answer, question):
        raise ProtocolError("the reader's answer does not fit the question")
    if sum(shape.size for shape in answer.shapes) > most_bytes(question):
        raise ProtocolError("the reader's answer is larger than it may be")
    return answer


def _fits(answer: Answer, question: Question) -> bool:
    match question, answer:
        case _, (ReadRefusal() | Unreadable()):
            return not answer.shapes
        case MapQuestion(), (MapAnswer() | ListMissing()):
            return True
        case LayoutQuestion(), LayoutAnswer():
            return True
        case KindsQuestion(paths=paths), KindsAnswer(kinds=kinds):
            return len(kinds) == len(paths)
    return False


def most_bytes(question: Question) -> int:
    """Return the maximum bytes of an answer's arrays."""
    match question:
        case MapQuestion():
            return MOST_BYTES_PER_SAMPLE * question.most + 64
        case LayoutQuestion():
            return _MOST_UNITS
    return 0


def shapes_of(arrays: "Sequence[array[int]]") -> tuple[ArrayShape, ...]:
    """Return the shapes of arrays."""
    return tuple(ArrayShape("I" if one.typecode == "I" else "Q", len(one)) for one in arrays)


def _decoded(decoder: "Decoder[T]", line: bytes) -> T:
    try:
        return decoder.decode(line)
    except (MsgspecError, RecursionError) as error:
        raise ProtocolError(f"a line between agent and reader is not understood: {error}"[:300]) from error
