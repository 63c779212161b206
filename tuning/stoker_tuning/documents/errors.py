"""Problems of a document: each has a place, a message and, if possible, a suggestion."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

MOST_PROBLEMS = 20  # in one error; authors see further ones after they fix these
_MOST_WORD = 60  # characters of foreign words in a sentence


@dataclass(frozen=True)
class Problem:
    """One problem; ``line`` and ``column`` count from 1, ``path`` is such as ``spec.rules[0].priority``."""

    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}"
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


class DocumentError(Exception):
    """An invalid document, with its problems."""

    def __init__(self, problems: Sequence[Problem], left_out: int = 0) -> None:
        self.problems = tuple(problems[:MOST_PROBLEMS])
        self.left_out = left_out + len(problems) - len(self.problems)
        super().__init__("; ".join(map(str, self.problems)))


def quoted(word: object) -> str:
    """Quote a word of a document, shortened and without control characters."""
    text = str(word)
    text = text if len(text) <= _MOST_WORD else f"{text[: _MOST_WORD - 1]}…"
    return '"' + "".join(mark if mark.isprintable() else "?" for mark in text) + '"'


def suggestion(word: object, known: Sequence[str]) -> str:
    """Return a sentence with the closest known word and a list of all known words."""
    text = str(word)[:_MOST_WORD].lower().replace("_", "").replace("-", "")
    plain = {each.lower().replace("_", ""): each for each in known}
    begins = [each for each in plain if len(text) > 2 and each.startswith(text[:3])]
    near = get_close_matches(text, plain, n=1, cutoff=0.6) or begins
    meant = f"did you mean {plain[near[0]]}? " if near else ""
    return f"{meant}It can be {', '.join(known)}" if known else f"{meant}Nothing can be here"
