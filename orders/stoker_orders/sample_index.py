"""Reads index files of a Dataset: the number of samples in each shard, and the start of each record."""

import json
import re
from array import array
from collections.abc import Container, Iterator
from io import BytesIO
from itertools import pairwise

_MOST_COUNT = 10_000_000  # samples of one shard
_MOST_DIGITS = 19  # of an offset: less than 2**64
_MOST_LINE = 8192  # bytes: two paths of Linux's maximum length
# An item of a JSON object. Quantifiers are possessive, so that no character is scanned twice.
_BLANK = r"[ \t\r\n]*+"
_NAME = re.compile(rf'{_BLANK}("(?:[^"\\]|\\.)*+"){_BLANK}:{_BLANK}', re.DOTALL)
_COUNT = re.compile(rf"([0-9]{{1,8}}+)(?![0-9.eE]){_BLANK}([,}}]?)")
_EMPTY, _REST = re.compile(rf"{_BLANK}}}"), re.compile(rf"{_BLANK}\Z")


class NoSamplesError(ValueError):
    """A job's file layout does not fit the Dataset. The message says why and what to do."""


def shard_counts(path: str, content: bytes, wanted: Container[bytes]) -> dict[bytes, int]:
    """Return the sample counts of the ``wanted`` shards, by their names in the index. Raises NoSamplesError.

    The index has lines ``NAME COUNT``, or a JSON object of names and counts, as webdataset's ``sizes.json``.
    """
    is_json = content[:_MOST_LINE].lstrip().startswith(b"{")
    counts = _counts_of_json(path, content) if is_json else _counts_of_lines(path, content)
    return {name: count for name, count in counts if name in wanted}


def listed_names(path: str, content: bytes) -> Iterator[bytes]:
    """Yield the non-blank lines of a file list. Raises NoSamplesError."""
    for _, line in _lines(path, content):
        if name := line.strip():
            yield name


def record_spans(path: str, content: bytes, size: int) -> "tuple[array[int], array[int]]":
    """Return the start and length of each record in a file of ``size`` bytes. Raises NoSamplesError.

    The index has lines ``OFFSET LENGTH`` or ``OFFSET`` in file order. Without a length, a record ends at the next one.
    """
    starts, lengths = array("Q"), array("Q")
    for number, words in _words(path, content):
        said = [int(word) for word in words if _is_number(word)]
        is_first_or_alike = not starts or (len(said) == 2) is bool(lengths)
        if len(said) != len(words) or len(said) > 2 or not is_first_or_alike:
            raise NoSamplesError(_wrong(path, number, words, "write OFFSET, or OFFSET LENGTH, in each line"))
        before = starts[-1] if starts else -1
        if not before < said[0] < size or sum(said) > size:
            raise NoSamplesError(_wrong(path, number, words, f"records follow one another within {size} bytes"))
        starts.append(said[0])
        lengths.extend(said[1:])
    return starts, lengths or array("Q", (end - start for start, end in pairwise([*starts, size])))


def _counts_of_json(path: str, content: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield names and counts while parsing, without other objects. Raises NoSamplesError."""
    try:
        yield from _counts_of_object(path, content.decode())
    except NoSamplesError:
        raise
    except ValueError as error:
        raise NoSamplesError(f"the index {path!r} starts like JSON but is invalid: {error}") from error


def _counts_of_object(path: str, text: str) -> Iterator[tuple[bytes, int]]:
    """Yield the items of an object. Raises NoSamplesError for an invalid count, and ValueError."""
    place, follows = text.index("{") + 1, ","
    if empty := _EMPTY.match(text, place):
        place, follows = empty.end(), "}"
    while follows == ",":
        name = _NAME.match(text, place)
        if name is None:
            raise ValueError(f"no name at character {place}")
        count = _COUNT.match(text, name.end())
        if count is None or int(count[1]) > _MOST_COUNT:
            wrong = _text(name[1])[:80]
            raise NoSamplesError(f"the index {path!r} has no count for {wrong!r}: write a whole number of samples")
        yield _text(name[1]).encode(errors="surrogateescape"), int(count[1])
        place, follows = count.end(), count[2]
    if not follows or _REST.match(text, place) is None:
        raise ValueError(f"neither a comma nor the end of the object at character {place}")


def _text(quoted: str) -> str:
    return str(json.loads(quoted)) if "\\" in quoted else quoted[1:-1]


def _counts_of_lines(path: str, content: bytes) -> Iterator[tuple[bytes, int]]:
    for number, words in _words(path, content):
        if len(words) < 2 or not _is_number(words[-1]) or int(words[-1]) > _MOST_COUNT:
            raise NoSamplesError(_wrong(path, number, words, "write the name of a shard, and its number of samples"))
        yield b" ".join(words[:-1]), int(words[-1])


def _words(path: str, content: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the words of each non-empty line."""
    for number, line in _lines(path, content):
        if words := line.split():
            yield number, words


def _lines(path: str, content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield lines one by one, since there may be millions. Raises NoSamplesError for a long one."""
    file = BytesIO(content)  # shares the bytes
    for number, line in enumerate(iter(lambda: file.readline(_MOST_LINE + 1), b""), start=1):
        if len(line) > _MOST_LINE:
            raise NoSamplesError(f"line {number} of {path!r} is longer than {_MOST_LINE} bytes: write a name a line")
        yield number, line


def _is_number(word: bytes) -> bool:
    return word.isdigit() and len(word) <= _MOST_DIGITS


def _wrong(path: str, number: int, words: list[bytes], what: str) -> str:
    shown = b" ".join(words)[:80].decode(errors="replace")
    return f"line {number} of the index {path!r} is {shown!r}: {what}"
