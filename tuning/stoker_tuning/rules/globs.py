"""Globs: ``*`` and ``?`` stop at '/', ``**`` does not; a glob without '/' matches names, with '/' it matches paths."""

import re
from dataclasses import dataclass

MOST_PATTERN = 256  # characters
_TOKEN = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_NO_CHARACTER = {"[]", "[!]", "[^]"}
_WILD = re.compile(r"[*?\[]")


class PatternError(ValueError):
    """A glob or regular expression that cannot be used: a sentence with the reason."""


@dataclass(frozen=True)
class Glob:
    """One glob, with the folder and the extension of its matches.

    ``folder`` ends at the last '/' before the first wildcard. Every match ends with ``extension``. Both may be empty.
    ``decided``: folder and extension are sufficient, as for ``train/**`` and ``*.tar``.
    """

    regex: re.Pattern[str]
    of_path: bool
    folder: str
    extension: str
    decided: bool

    def holds(self, path: str) -> bool:
        """Return True if a path matches."""
        return self.regex.fullmatch(path if self.of_path else path.rpartition("/")[2]) is not None

    def decide(self, folder: str | None, extension: str) -> bool | None:
        """Return True if all files with an extension in a folder match, False if no file does, else None.

        ``folder`` ends with '/', or is empty. None stands for all folders. ``extension`` is in the case of the files.
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
    if "[" in _TOKEN.findall(text):
        raise PatternError("a '[' has no ']': close it, or write [[] for the character")
    regex = compile_glob(text)
    of_path = "/" in text or text == "**"
    wild = _WILD.search(text)
    literal = text[: wild.start()] if wild else text
    folder = literal.rpartition("/")[0] + "/" if "/" in literal else ""
    extension = _extension(text)
    decided = text in (f"{folder}**", f"*{extension}")
    return Glob(regex, of_path, folder, extension, decided)


def compile_glob(text: str) -> re.Pattern[str]:
    """Translate a glob to a regular expression for whole paths. Raises PatternError with a sentence.

    A match takes at most the glob's length times the path's steps: once a ``*`` has found the characters after it, it
    never looks for them again (an atomic group), because a later place leaves less for the rest. The same holds for
    ``**/`` and the folders after it.
    """
    if not text or text.startswith("/") or text.endswith("/"):
        raise PatternError("it must not be empty, nor begin or end with '/': write train/**")
    if re.search(r"[^/]\*\*|\*\*[^/]", text):
        raise PatternError("'**' must stand alone between slashes: write a/**/b")
    tokens = _TOKEN.findall(text)
    if _NO_CHARACTER & set(tokens):
        raise PatternError("brackets need a character in them: write [abc] or [!abc]")
    groups, below = _folder_groups(tokens)
    # The part after the last '**/' ends the path, unless the glob ends with '**'.
    parts = [_folders(group, last=not below and group is groups[-1]) for group in groups[1:]]
    source = "".join([_segments(groups[0]), *(f"(?>(?:[^/]*+/)*?{part})" for part in parts)]) + (".+" if below else "")
    try:
        return re.compile(source, re.DOTALL)
    except re.error as error:
        raise PatternError(error.msg) from error


def _folder_groups(tokens: list[str]) -> tuple[list[list[str]], bool]:
    """Split the tokens of a pattern at each ``**/``; return True if it ends with a ``**``, which is left out."""
    below = tokens[-1] in ("**", "/**")
    if below:
        tokens = [*tokens[:-1], *(["/"] if tokens[-1] == "/**" else [])]
    groups: list[list[str]] = [[]]
    for token in tokens:
        if token == "**/":
            groups.append([])
        else:
            groups[-1].append(token)
    return groups, below


def _folders(group: list[str], *, last: bool) -> str:
    return _segments(group) + (r"\Z" if last else "")


def _segments(tokens: list[str]) -> str:
    """Translate names between slashes."""
    names: list[list[str]] = [[]]
    for token in tokens:
        if token == "/":
            names.append([])
        else:
            names[-1].append(token)
    return "/".join(_name(name) for name in names)


def _name(tokens: list[str]) -> str:
    """Translate one name: parts between stars match from the left, the last part at the end of the name."""
    runs: list[str] = [""]
    for token in tokens:
        if token == "*":
            runs.append("")
        else:
            runs[-1] += _translate(token)
    first, *others = runs
    if not others:
        return first
    end = f"(?>[^/]*?{others[-1]}(?=/|\\Z))" if others[-1] else "[^/]*+"
    return first + "".join(f"(?>[^/]*?{run})" for run in others[:-1]) + end


def _translate(token: str) -> str:
    """Translate the token of one character."""
    if token == "?":
        return "[^/]"
    if token.startswith("[") and len(token) > 1:
        negated = token[1] in "!^"
        ranges = re.findall("(?s:.-.|.)", token[1 + negated : -1])
        members = "".join("-".join(map(re.escape, one[::2])) for one in ranges)
        return f"(?!/)[{'^' * negated}{members}]"
    return re.escape(token)


def _extension(text: str) -> str:
    """Return the extension of every match, such as ``.tar``, or nothing."""
    name = text.rpartition("/")[2]
    tail = name[name.rfind(".") :] if "." in name else ""
    return "" if _WILD.search(tail) or "]" in tail else tail
