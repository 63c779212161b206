"""Reads files of a Dataset that say how samples lie in others: how many are in each shard, where records begin."""

import json
from array import array
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise

_MOST_COUNT = 10_000_000  # samples of one shard
_MOST_DIGITS = 19  # of an offset: less than 2**64


class NoSamplesError(ValueError):
    """What a job says of its files does not fit the Dataset; the message says why, and what to do."""


def shard_counts(path: str, content: bytes) -> dict[bytes, int]:
    """Return how many samples each shard has, by the name that the index gives it. Raises NoSamplesError.

    A line each, ``NAME COUNT``; or a JSON object of names and counts, as webdataset's ``sizes.json``.
    """
    return _counts_of_json(path, content) if content.lstrip().startswith(b"{") else _counts_of_lines(path, content)


def record_spans(path: str, content: bytes, size: int) -> "tuple[array[int], array[int]]":
    """Return where each record of a file of ``size`` bytes begins, and its length. Raises NoSamplesError.

    A line each, ``OFFSET LENGTH`` or ``OFFSET``: then it ends where the next one begins. In the order of the file.
    """
    starts, lengths = array("Q"), array("Q")
    for number, words in _lines(content):
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


def _counts_of_json(path: str, content: bytes) -> dict[bytes, int]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise NoSamplesError(f"the index {path!r} begins as JSON, and is none: {error}") from error
    for name, count in found.items():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_COUNT:
            raise NoSamplesError(f"the index {path!r} has no count for {name!r}: write a whole number of samples")
    return {name.encode(errors="surrogateescape"): count for name, count in found.items()}


def _counts_of_lines(path: str, content: bytes) -> dict[bytes, int]:
    counts: dict[bytes, int] = {}
    for number, words in _lines(content):
        if len(words) < 2 or not _is_number(words[-1]) or int(words[-1]) > _MOST_COUNT:
            raise NoSamplesError(_wrong(path, number, words, "write the name of a shard, and its number of samples"))
        counts[b" ".join(words[:-1])] = int(words[-1])
    return counts


def _lines(content: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the words of each line that has any; not all lines at once, since there may be millions."""
    for number, line in enumerate(BytesIO(content), start=1):
        if words := line.split():
            yield number, words


def _is_number(word: bytes) -> bool:
    return word.isdigit() and len(word) <= _MOST_DIGITS


def _wrong(path: str, number: int, words: list[bytes], what: str) -> str:
    shown = b" ".join(words)[:80].decode(errors="replace")
    return f"line {number} of the index {path!r} is {shown!r}: {what}"
