"""The wire between agent and asker: one question, then an answer of each plug-in, a JSON object a line.

The order that an order plug-in tells comes in parts, a line each, and ends with a line that has none.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker_sidecar.wire import lines

SOCKET = "asker.sock"
ORDERS_SOCKET = "order-asker.sock"
MOST_FILES = 16  # of a question
# A question: 16 heads of 64 KiB and a container, in base 64. An answer: 256 KiB of a plug-in's own, in base 64.
MOST_QUESTION = 4 * 1024 * 1024
MOST_LINE = 512 * 1024
_MOST_WORDS = 300
_MOST_ORIGIN = 100
_PART = 256 * 1024  # bytes of an order


@dataclass(frozen=True)
class ToldAnswer:
    """What the asker tells of one plug-in: ``said``, unread, or why it is ``refused``. ``origin``: its package."""

    name: str
    origin: str
    said: bytes = b""
    refused: str = ""


def encode_question(names: Sequence[str], question: Mapping[str, Any]) -> bytes:
    """Write a question to these plug-ins as a line."""
    return lines.encode({**question, "plugins": list(names)})


def decode_question(line: bytes) -> dict[str, Any]:
    """Read a question. Raises ValueError."""
    question = lines.decode_object(line)
    names, files, context = (question.get(key) for key in ("plugins", "files", "context"))
    if not isinstance(files, list) or len(files) > MOST_FILES or not isinstance(context, dict):
        raise ValueError(f"a question has files, {MOST_FILES} at most, and a context")
    if not isinstance(names, list):
        raise ValueError("a question names the plug-ins that it is for")
    return question


def encode_parts(told: ToldAnswer) -> Iterator[bytes]:
    """Write the answer of an order plug-in as lines."""
    for at in range(0, len(told.said), _PART):
        yield encode_told(ToldAnswer(told.name, told.origin, told.said[at : at + _PART]))
    yield encode_told(ToldAnswer(told.name, told.origin, refused=told.refused))


def encode_told(told: ToldAnswer) -> bytes:
    """Write an answer as a line."""
    return lines.encode(
        {"name": told.name, "origin": told.origin, "said": b64encode(told.said).decode(), "refused": told.refused}
    )


def decode_told(line: bytes, names: Sequence[str]) -> ToldAnswer:
    """Read an answer of one of the named plug-ins. Raises ValueError.

    Also for what no asker of ours says: it runs the code of others, which may have taken it over.
    """
    try:
        row = lines.decode_object(line)
    except RecursionError:
        raise ValueError("the asker's word of a plug-in is not understood") from None
    name, origin, said, refused = (row.get(key) for key in ("name", "origin", "said", "refused"))
    if name not in names:
        raise ValueError(f"the asker tells of {name!r:.80}, which nobody asked")
    if not (isinstance(origin, str) and isinstance(said, str) and isinstance(refused, str)):
        raise ValueError("the asker's word of a plug-in is not understood")
    return ToldAnswer(str(name), _plain(origin, _MOST_ORIGIN), b64decode(said, validate=True), _plain(refused))


def _plain(text: str, most: int = _MOST_WORDS) -> str:
    """Return others' words: short, and without signs that move a cursor."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:most])
