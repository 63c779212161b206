"""Globs: ``*`` and ``?`` stop at '/', ``**`` does not; one without '/' is for a file's name, others for its path."""

import re
from dataclasses import dataclass

from stoker_tuning.rules.matching import Matcher
from stoker_tuning.rules.regex_syntax import (
    ANY,
    MOST_PATTERN,
    NOT_SLASH,
    Automaton,
    Builder,
    CharacterSet,
    Part,
    PatternError,
)

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Glob:
    """One glob, with what can be told of a path from its folder and its extension alone.

    ``folder`` is what stands before the first wildcard up to the last '/', ``extension`` that with which every match
    ends; both are empty where there is none. ``decided`` by them: ``train/**`` and ``*.tar`` ask for nothing else.
    """

    matcher: Matcher
    of_path: bool
    folder: str
    extension: str
    decided: bool

    def holds(self, path: str) -> bool:
        """Tell whether a path matches."""
        return self.matcher.holds(path if self.of_path else path.rpartition("/")[2])

    def decide(self, folder: str | None, extension: str) -> bool | None:
        """Tell whether all files (True) or none (False) of a folder with an extension match; None: it depends.

        ``folder`` ends with '/', or is empty; None stands for all folders. ``extension`` is as the files have it.
        """
        if self.extension and extension != self.extension:
            return False
        if folder is None:
            return True if self.decided and not self.folder else None
        if not folder.startswith(self.folder):
            return False
        return True if self.decided else None


def parse_glob(text: str) -> Glob:
    """Read a glob. Raises PatternError with a sentence."""
    if not text or len(text) > MOST_PATTERN:
        raise PatternError(f"it has {len(text)} characters: write 1 to {MOST_PATTERN}")
    if text.startswith("/") or text.endswith("/"):
        raise PatternError("it must not begin or end with '/': paths are below the Dataset's folder, write train/**")
    if re.search(r"[^/]\*\*|\*\*[^/]", text):
        raise PatternError("'**' must stand alone between slashes: write a/**/b")
    of_path = "/" in text or text == "**"
    wild = _WILD.search(text)
    literal = text[: wild.start()] if wild else text
    folder = literal.rpartition("/")[0] + "/" if "/" in literal else ""
    extension = _extension(text)
    decided = text in (f"{folder}**", f"*{extension}")
    return Glob(Matcher(_automaton(text), whole=True), of_path, folder, extension, decided)


def _extension(text: str) -> str:
    """Return the extension that every match has, such as ``.tar``."""
    name = text.rpartition("/")[2]
    tail = name[name.rfind(".") :] if "." in name else ""
    return "" if _WILD.search(tail) or "]" in tail else tail


def _automaton(text: str) -> Automaton:
    builder = Builder()
    return builder.whole(builder.chain([_token(builder, token) for token in _TOKEN.findall(text)]))


def _token(builder: Builder, token: str) -> Part:
    if token == "**/":
        folders = builder.chain([builder.many(builder.one(ANY)), builder.one(CharacterSet((("/", "/"),)))])
        return builder.maybe(folders)
    if token == "**":
        return builder.chain([builder.one(ANY), builder.many(builder.one(ANY))])
    if token == "*":
        return builder.many(builder.one(NOT_SLASH))
    if token == "?":
        return builder.one(NOT_SLASH)
    if len(token) > 1:
        return builder.one(_bracket(token[1:-1]))
    if token == "[":
        raise PatternError("a '[' has no ']': close it, or write [[] for the character")
    return builder.one(CharacterSet(((token, token),)))


def _bracket(body: str) -> CharacterSet:
    negated = body.startswith("!")
    marks = body[1:] if negated else body
    if not marks:
        raise PatternError("brackets need a character in them: write [abc] or [!abc]")
    ranges: list[tuple[str, str]] = []
    while marks:
        if len(marks) > 2 and marks[1] == "-":
            if marks[0] > marks[2]:
                raise PatternError("a range in [...] goes from a character to a later one: write a-z")
            ranges.append((marks[0], marks[2]))
            marks = marks[3:]
        else:
            ranges.append((marks[0], marks[0]))
            marks = marks[1:]
    # Brackets never take a '/', as '*' and '?' do not.
    return CharacterSet((*ranges, ("/", "/")), negated=True) if negated else CharacterSet(_without_slash(ranges))


def _without_slash(ranges: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    parts: list[tuple[str, str]] = []
    for first, last in ranges:
        if first <= "/" <= last:
            parts += [pair for pair in ((first, "."), ("0", last)) if pair[0] <= pair[1]]
        else:
            parts.append((first, last))
    return tuple(parts)
