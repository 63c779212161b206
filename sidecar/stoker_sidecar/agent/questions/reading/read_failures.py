"""Questions that no reader can answer within its limits. They are not repeated, also by the node's next agent."""

import hashlib
import logging
import os
from pathlib import Path

from msgspec import DecodeError, ValidationError
from msgspec.json import Decoder, encode
from msgspec.structs import replace

from stoker_sidecar.wire.reader_protocol import MOST_SENTENCE, MapQuestion, Question
from stoker_sidecar.wire.reader_protocol import encode as encode_question

log = logging.getLogger(__name__)
MOST = 256  # failures; beyond this the oldest is forgotten, and its files are read again
_MOST_BYTES = MOST * (MOST_SENTENCE * 6 + 100)
_failures: Decoder[dict[str, str]] = Decoder(dict[str, str])


class ReadFailures:
    """The reasons for failed questions, in the small file ``path`` (None: only in memory).

    A version never changes, so neither do its failures. They are few, and newer ones displace old ones.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, str] = _read(path) if path is not None else {}
        self._lasting = set(self._known)

    def why(self, question: Question) -> str:
        """Return the sentence of a failure, or an empty string."""
        return self._known.get(_key(question), "")

    def remember(self, question: Question, why: str, *, lasting: bool) -> None:
        """Store a failure; ``lasting`` also stores it in the file. Blocks for a small write."""
        key = _key(question)
        self._known.pop(key, None)
        self._known[key] = why
        while len(self._known) > MOST:
            self._known.pop(next(iter(self._known)))
        if lasting:
            self._lasting.add(key)
            self._write()

    def _write(self) -> None:
        self._lasting &= self._known.keys()
        if self._path is None:
            return
        draft = self._path.with_suffix(".new")
        try:
            draft.write_bytes(encode({key: why for key, why in self._known.items() if key in self._lasting}))
            os.replace(draft, self._path)  # noqa: PTH105 -- one call
        except OSError as error:
            log.warning("failed reads are not remembered over restarts: %s", error)


def _read(path: Path) -> dict[str, str]:
    """Read the file. A damaged file counts as empty."""
    try:
        with path.open("rb") as file:
            return dict(list(_failures.decode(file.read(_MOST_BYTES)).items())[:MOST])
    except FileNotFoundError:
        return {}
    except (OSError, DecodeError, ValidationError, UnicodeDecodeError) as error:
        log.warning("failed reads of an earlier agent are forgotten: %s", error)
        return {}


def _key(question: Question) -> str:
    """Return the key of a question. The remaining sample allowance is not part of it."""
    same = replace(question, most=0) if isinstance(question, MapQuestion) else question
    return hashlib.sha256(encode_question(same)).hexdigest()
