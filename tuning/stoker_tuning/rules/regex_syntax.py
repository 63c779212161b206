"""Regular expressions and globs as automata: parsed into states, of which there is a bounded number.

What Python's ``re`` can only do by trying again (references, looking around) is refused, so that a match costs at most
the states times the text's length.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

MOST_PATTERN = 256  # characters
MOST_STATES = 1_000
_MOST_COUNT = 255
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_DIGITS = (("0", "9"),)
_WORD = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE = tuple((mark, mark) for mark in " \t\n\r\f\v")
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_NOT_TAKEN = {"?=": "look ahead", "?!": "look ahead", "?<": "look behind or name groups", "?P": "name groups"}

Ranges = tuple[tuple[str, str], ...]


class PatternError(ValueError):
    """A pattern that cannot be taken: a sentence that says what to write."""


class CharacterSet(NamedTuple):
    """Characters by ranges; with ``negated`` all others. Empty ranges with ``negated``: any."""

    ranges: Ranges
    negated: bool = False

    def takes(self, character: str) -> bool:
        """Tell whether the character is one of these."""
        return any(first <= character <= last for first, last in self.ranges) != self.negated


ANY = CharacterSet((), negated=True)
NOT_SLASH = CharacterSet((("/", "/"),), negated=True)
_NOT_NEWLINE = CharacterSet((("\n", "\n"),), negated=True)


@dataclass
class Automaton:
    """States of a pattern, by number.

    Each either takes a character and goes on to ``then``, or goes on to several without one (``forks``), or holds only
    at the text's begin or end. The last state, ``accept``, has nothing behind it.
    """

    takes: list[CharacterSet | None] = field(default_factory=list)
    forks: list[tuple[int, ...]] = field(default_factory=list)
    only_at: list[str] = field(default_factory=list)
    start: int = 0
    accept: int = 0

    def add(self, takes: CharacterSet | None = None, only_at: str = "") -> int:
        """Add a state and return its number. Raises PatternError when there are too many."""
        if len(self.takes) >= MOST_STATES:
            raise PatternError(f"it needs more than {MOST_STATES} states: write smaller repetitions")
        self.takes.append(takes)
        self.forks.append(())
        self.only_at.append(only_at)
        return len(self.takes) - 1


class Part(NamedTuple):
    """A piece of an automaton: where it begins, and the state behind which the next piece goes."""

    begin: int
    end: int


class Builder:
    """Puts an automaton together from pieces."""

    def __init__(self) -> None:
        self.automaton = Automaton()

    def one(self, characters: CharacterSet) -> Part:
        """Return a piece that takes one character."""
        number = self.automaton.add(characters)
        end = self.automaton.add()
        self.automaton.forks[number] = (end,)
        return Part(number, end)

    def empty(self, only_at: str = "") -> Part:
        """Return a piece that takes nothing, anywhere or only at the text's ``begin`` or ``end``."""
        number = self.automaton.add(only_at=only_at)
        return Part(number, number)

    def chain(self, parts: list[Part]) -> Part:
        """Return pieces one after the other."""
        if not parts:
            return self.empty()
        for first, second in pairwise(parts):
            self._link(first.end, second.begin)
        return Part(parts[0].begin, parts[-1].end)

    def either(self, parts: list[Part]) -> Part:
        """Return a choice of pieces."""
        begin, end = self.automaton.add(), self.automaton.add()
        for part in parts:
            self._link(begin, part.begin)
            self._link(part.end, end)
        return Part(begin, end)

    def many(self, part: Part) -> Part:
        """Return a piece that may come any number of times."""
        hub = self.automaton.add()
        self._link(hub, part.begin)
        self._link(part.end, hub)
        return Part(hub, hub)

    def maybe(self, part: Part) -> Part:
        """Return a piece that may be left out."""
        return self.either([part, self.empty()])

    def whole(self, part: Part) -> Automaton:
        """Return the automaton of a piece."""
        self.automaton.start, self.automaton.accept = part.begin, part.end
        return self.automaton

    def _link(self, number: int, to: int) -> None:
        self.automaton.forks[number] = (*self.automaton.forks[number], to)


class _Parser:
    """Reads a regular expression from the left; pieces of it are built as they are read."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.builder, self.depth = text, 0, Builder(), 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def choice(self) -> Part:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            parts.append(self.sequence())
        return self.builder.either(parts) if len(parts) > 1 else parts[0]

    def sequence(self) -> Part:
        parts = []
        while self.peek() and self.peek() not in "|)":
            parts.append(self.repeated())
        return self.builder.chain(parts)

    def repeated(self) -> Part:
        begin = self.at
        part = self.atom()
        bounds = self._bounds()
        if bounds is None:
            return part
        end = self.at
        if self.peek() and self.peek() in "*+":
            raise PatternError("a repetition cannot be repeated: put it in (?:...)")
        if self.peek() == "?":  # as few as possible: no difference to whether there is a match
            self.at += 1
        after = self.at
        part = self._times(begin, part, bounds)
        self.at = max(after, end)
        return part

    def _times(self, begin: int, part: Part, bounds: tuple[int, int | None]) -> Part:
        """Repeat what stands at ``begin``: each time it is built anew, since a piece has one place."""
        least, most = bounds
        if (least, most) == (0, None):
            return self.builder.many(part)

        def again() -> Part:
            self.at = begin
            return self.atom()

        parts = [part if number == 0 else again() for number in range(least)]
        if most is None:
            parts.append(self.builder.many(again()))
        else:
            parts += [self.builder.maybe(again()) for _ in range(most - least)]
        return self.builder.chain(parts)

    def _bounds(self) -> tuple[int, int | None] | None:
        mark = self.peek()
        if mark and mark in "*+?":
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
        return self._counted() if mark == "{" else None

    def _counted(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.at)
        words = self.text[self.at + 1 : end].split(",") if end > 0 else []
        if not 1 <= len(words) <= 2 or not all(word.isascii() and word.isdigit() for word in words if word):
            raise PatternError("'{' begins a repetition such as {2,5}: write \\{ for the character")
        if not words[0] or any(len(word) > 3 or int(word) > _MOST_COUNT for word in words if word):
            raise PatternError(f"a repetition has a number of 0 to {_MOST_COUNT}, such as {{2}} or {{2,5}}")
        self.at = end + 1
        least = int(words[0])
        most = least if len(words) == 1 else int(words[1]) if words[1] else None
        if most is not None and most < least:
            raise PatternError("a repetition has its smaller number first: write {2,5}")
        return least, most

    def atom(self) -> Part:
        mark = self.text[self.at]
        self.at += 1
        if mark == "(":
            return self._group()
        if mark == "[":
            return self.builder.one(self._bracket())
        if mark in "*+?{":
            raise PatternError(f"there is nothing before {mark!r} to repeat: write \\{mark} for the character")
        if mark == "^" or mark == "$":
            return self.builder.empty("begin" if mark == "^" else "end")
        if mark == ".":
            return self.builder.one(_NOT_NEWLINE)
        if mark == "\\":
            return self.builder.one(self._escape())
        return self.builder.one(CharacterSet(((mark, mark),)))

    def _group(self) -> Part:
        if self.text.startswith("?:", self.at):
            self.at += 2
        elif self.peek() == "?":
            what = _NOT_TAKEN.get(self.text[self.at : self.at + 2], "set flags")
            raise PatternError(f"groups that {what} are not taken: use (...) or (?:...)")
        self.depth += 1
        if self.depth > 20:
            raise PatternError("it has more than 20 groups within each other: write fewer")
        part = self.choice()
        if self.peek() != ")":
            raise PatternError("a '(' has no ')': close it, or write \\( for the character")
        self.at += 1
        self.depth -= 1
        return part

    def _escape(self) -> CharacterSet:
        mark = self.peek()
        self.at += 1
        if mark.lower() in _CLASSES and mark:
            return CharacterSet(_CLASSES[mark.lower()], negated=mark.isupper())
        if mark in _ESCAPED:
            return CharacterSet(((_ESCAPED[mark], _ESCAPED[mark]),))
        if not mark or mark.isalnum():
            raise PatternError(f"\\{mark} is not taken: use \\d, \\w, \\s, their capitals, or a \\ before a sign")
        return CharacterSet(((mark, mark),))

    def _bracket(self) -> CharacterSet:
        negated = self.peek() == "^"
        self.at += negated
        ranges: list[tuple[str, str]] = []
        while self.peek() != "]" or not ranges:
            if not self.peek():
                raise PatternError("a '[' has no ']': close it, or write \\[ for the character")
            ranges += self._range()
        self.at += 1
        return CharacterSet(tuple(ranges), negated)

    def _range(self) -> Ranges:
        first = self._member()
        if self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return first
        self.at += 1
        last = self._member()
        if len(first) > 1 or len(last) > 1 or first[0][0] > last[0][0]:
            raise PatternError("a range in [...] goes from a character to a later one: write a-z")
        return ((first[0][0], last[0][0]),)

    def _member(self) -> Ranges:
        mark = self.peek()
        self.at += 1
        if mark != "\\":
            return ((mark, mark),) if mark else ()
        found = self._escape()
        if found.negated:
            raise PatternError("\\D, \\W and \\S are not taken within [...]")
        return found.ranges


def parse_regex(text: str) -> Automaton:
    """Read a regular expression. Raises PatternError with a sentence."""
    _check_length(text)
    parser = _Parser(text)
    part = parser.choice()
    if parser.at < len(text):
        raise PatternError("a ')' has no '(' before it: write \\) for the character")
    return parser.builder.whole(part)


def _check_length(text: str) -> None:
    if not text or len(text) > MOST_PATTERN:
        raise PatternError(f"it has {len(text)} characters: write 1 to {MOST_PATTERN}")
