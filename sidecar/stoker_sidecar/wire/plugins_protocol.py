"""The protocol between agent and asker: a question, then the answers of the plug-ins, one JSON object per line.

An answer consists of parts, one line each. A line without a part ends it.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker_sidecar.wire import lines

SOCKET = "asker.sock"
# A question: 16 heads of 64 KiB and a container, in base 64. A line of an answer: a part, in base 64.
MOST_QUESTION = 4 * 1024 * 1024
MOST_LINE = 512 * 1024
_MOST_WORDS = 300
_MOST_ORIGIN = 100
_PART = 256 * 1024  # bytes


@dataclass(frozen=True)
class ToldAnswer:
    """The unchecked answer of one plug-in, or why it is ``refused``. ``origin``: its package.

    ``seconds``: the duration, as the agent measures it.
    """

    name: str
    origin: str
    said: bytes = b""
    refused: str = ""
    seconds: float = 0.0


def encode_question(names: Sequence[str], question: Mapping[str, Any]) -> bytes:
    """Write a question to these plug-ins as a line."""
    return lines.encode({"plugins": list(names), "question": question})


def decode_question(line: bytes) -> tuple[list[str], dict[str, Any]]:
    """Return the names of plug-ins and the question for them. Raises ValueError."""
    asked = lines.decode_object(line)
    names, question = asked.get("plugins"), asked.get("question")
    if not isinstance(names, list) or not isinstance(question, dict):
        raise ValueError("a question names its plug-ins")
    return names, question


def encode_parts(told: ToldAnswer) -> Iterator[bytes]:
    """Write the answer of a plug-in as lines."""
    for at in range(0, len(told.said), _PART):
        yield encode_told(ToldAnswer(told.name, told.origin, told.said[at : at + _PART]))
    yield encode_told(ToldAnswer(told.name, told.origin, refused=told.refused))


def encode_told(told: ToldAnswer) -> bytes:
    """Write a part of an answer as a line."""
    return lines.encode(
        {"name": told.name, "origin": told.origin, "said": b64encode(told.said).decode(), "refused": told.refused}
    )


def decode_told(line: bytes, names: Sequence[str]) -> ToldAnswer:
    """Read a line of the answer of one of the named plug-ins. Raises ValueError.

    The line is hostile input: a plug-in may control the asker.
    """
    try:
        row = lines.decode_object(line)
    except RecursionError:
        raise ValueError("the asker's word of a plug-in is not understood") from None
    name, origin, said, refused = (row.get(key) for key in ("name", "origin", "said", "refused"))
    if name not in names:
        raise ValueError(f"the asker answers for {name!r:.80}, which was not asked")
    if not (isinstance(origin, str) and isinstance(said, str) and isinstance(refused, str)):
        raise ValueError("the asker's word of a plug-in is not understood")
    return ToldAnswer(str(name), _plain(origin, _MOST_ORIGIN), b64decode(said, validate=True), _plain(refused))


def _plain(text: str, most: int = _MOST_WORDS) -> str:
    """Return third-party text shortened, without control characters."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:most])
