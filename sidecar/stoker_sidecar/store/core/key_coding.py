"""Encodings of keys in a server's listings, and the encodings that its keys rule out. Pure.

Amazon S3 percent-encodes keys on request, writes '+' for a blank, and states this in EncodingType. Other servers do not
use '+', ignore the request, encode without stating it, state it without encoding, or encode twice.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

_MALFORMED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TWICE_TEXT = re.compile("%2[5Bb]")  # '%' and '+', encoded


class KeyCoding(NamedTuple):
    """An encoding of keys: the number of percent-encoding rounds, and whether '+' means a blank."""

    rounds: int
    plus: bool

    def decode(self, text: str) -> bytes:
        """Return the key's bytes, which need not be UTF-8."""
        raw = text.encode()
        if not self.rounds or not is_ambiguous(text):
            return raw
        for _ in range(self.rounds):
            raw = unquote_to_bytes(raw.replace(b"+", b" ") if self.plus else raw)
        return raw

    def may_encode(self, text: str, prefix: bytes) -> bool:
        """Return False if this text is the encoding of no key below ``prefix``."""
        if self.rounds and _MALFORMED.search(text):
            return False  # every encoder encodes '%'
        if self.plus and (" " in text or "%20" in text):
            return False  # it writes '+' for a blank
        return self.decode(text).startswith(prefix)


RAW = KeyCoding(0, plus=False)
FORM = KeyCoding(1, plus=True)  # Amazon S3's encoding
PERCENT = KeyCoding(1, plus=False)  # RFC 3986
_TWICE = (KeyCoding(2, plus=True), KeyCoding(2, plus=False))


def is_ambiguous(text: str) -> bool:
    """Return True if encodings differ in what this text means."""
    return "%" in text or "+" in text


def is_damaged(text: str) -> bool:
    """Return True if the server may have replaced characters of the key, as Go's XML writer does."""
    return "\ufffd" in text


class KeyCodings:
    """The possible encodings of one listing, the likeliest first.

    ``stated``: EncodingType is url. ``certain``: the server surely encodes as it states.
    """

    def __init__(self, prefix: str, *, stated: bool, certain: bool = False) -> None:
        self._prefix = prefix.encode()
        likely = (FORM, PERCENT, RAW) if stated else (RAW, FORM, PERCENT)
        self._left: Sequence[KeyCoding] = likely[:1] if certain else (*likely, *_TWICE)

    @property
    def best(self) -> KeyCoding:
        """Return the likeliest encoding."""
        return self._left[0]

    def differ(self, text: str) -> bool:
        """Return False if all remaining encodings decode this text to the same key. A fast check."""
        if RAW in self._left:
            return len(self._left) > 1 and is_ambiguous(text)
        return len(self._left) > 1 and ("+" in text or _TWICE_TEXT.search(text) is not None)

    def names(self, text: str) -> list[bytes]:
        """Rule out encodings that cannot produce this text. Return the keys that it may mean."""
        self._keep(coding for coding in self._left if coding.may_encode(text, self._prefix))
        return list(dict.fromkeys(coding.decode(text) for coding in self._left))

    def keep(self, text: str, names: Iterable[bytes]) -> None:
        """Rule out encodings in which the text means none of these keys."""
        kept = frozenset(names)
        self._keep(coding for coding in self._left if coding.decode(text) in kept)

    def choose(self) -> None:
        """Rule out all but the likeliest encoding."""
        self._left = self._left[:1]

    def _keep(self, codings: Iterable[KeyCoding]) -> None:
        self._left = tuple(codings) or self._left  # if none fits, parsing the keys fails later
