"""Patterns of include and exclude: ``*`` and ``?`` stop at '/', ``**`` does not; exclude wins."""

import re
from collections.abc import Callable, Iterable

_TOKEN = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Translate one pattern to a regular expression that is matched whole. Raises ValueError with a sentence."""
    if not pattern or pattern.startswith("/") or pattern.endswith("/"):
        raise ValueError(f"the pattern {pattern!r} must not be empty, nor begin or end with '/': write train/**")
    if re.search(r"[^/]\*\*|\*\*[^/]", pattern):
        raise ValueError(f"in the pattern {pattern!r} '**' must stand alone between slashes: write a/**/b")
    source = "".join(_translate(token) for token in _TOKEN.findall(pattern))
    try:
        return re.compile(source, re.DOTALL)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r} cannot be read: {error}") from error


def _translate(token: str) -> str:
    fixed = {"**/": "(?:[^/]+/)*", "/**": "/.+", "**": ".+", "*": "[^/]*", "?": "[^/]"}
    if token in fixed:
        return fixed[token]
    if token.startswith("[") and len(token) > 1:
        body = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[^{body[1:]}]" if body.startswith("!") else f"(?!/)[{body}]"
    return re.escape(token)


def selector(include: Iterable[str], exclude: Iterable[str]) -> Callable[[str], bool]:
    """Return the test for paths of the dataset; without include it is every path. Raises ValueError with a sentence."""
    kept = [compile_pattern(pattern) for pattern in include]
    dropped = [compile_pattern(pattern) for pattern in exclude]

    def selected(path: str) -> bool:
        if kept and not any(pattern.fullmatch(path) for pattern in kept):
            return False
        return not any(pattern.fullmatch(path) for pattern in dropped)

    return selected
