"""A tutorial as a program: the commands of its fenced blocks in order, with the output that it shows. Pure.

A ``bash`` block is one script. A ``console`` block has commands after ``$ ``, each with its output below. ``...`` in
the output stands for any text, and alone on a line for any lines. Columns may be wider or narrower.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_FENCE = re.compile(r"\s*```(\S*)$")
_PROMPT = "$ "
_ANY = "..."


class InvalidWalkthroughError(ValueError):
    """A block cannot be run, or a variable to replace is not in the tutorial. The message has the line."""


@dataclass(frozen=True)
class Step:
    """A command, or a script of several. ``expected``: its output, or None if any is right."""

    line: int
    command: str
    expected: str | None = None

    def difference(self, output: str) -> str:
        """Return what is wrong with the output, or an empty text."""
        if self.expected is None or re.fullmatch(_pattern(self.expected), _squeezed(output)):
            return ""
        return f"line {self.line}: {self.command}\nexpected:\n{self.expected}\nprinted:\n{output}"


def steps(markdown: str, variables: Mapping[str, str]) -> list[Step]:
    """Return the steps of a tutorial. ``variables`` replace the values of its ``export`` lines.

    Raises InvalidWalkthroughError.
    """
    found = [step for line, kind, body in _blocks(markdown) for step in _read(line, kind, body)]
    for name, value in variables.items():
        found = _replaced(found, name, value)
    return found


def _blocks(markdown: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the first line number, language and lines of each block."""
    opened, kind, body = 0, "", list[str]()
    for number, line in enumerate(markdown.splitlines(), 1):
        if fence := _FENCE.match(line):
            if opened:
                yield opened + 1, kind, body
            opened, kind, body = (0, "", []) if opened else (number, fence[1], [])
        elif opened:
            body.append(line)
    if opened:
        raise InvalidWalkthroughError(f"line {opened}: the block has no end")


def _read(line: int, kind: str, body: list[str]) -> Iterator[Step]:
    if kind == "bash":
        yield Step(line, "\n".join(body))
    elif kind == "console" and body and body[0].startswith(_PROMPT):
        starts = [number for number, text in enumerate(body) if text.startswith(_PROMPT)]
        for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
            yield Step(line + start, body[start].removeprefix(_PROMPT), "\n".join(body[start + 1 : end]))
    else:
        raise InvalidWalkthroughError(f"line {line}: a block must be bash, or console with a line after {_PROMPT!r}")


def _replaced(found: list[Step], name: str, value: str) -> list[Step]:
    export = re.compile(rf"(?m)^export {re.escape(name)}=.*$")
    if not any(export.search(step.command) for step in found):
        raise InvalidWalkthroughError(f"no line of the tutorial begins with `export {name}=`")
    return [
        Step(step.line, export.sub(lambda _: f"export {name}={value}", step.command), step.expected) for step in found
    ]


def _pattern(expected: str) -> str:
    lines = (_any_lines(line) for line in _squeezed(expected).splitlines())
    return "".join(lines)


def _any_lines(line: str) -> str:
    if line == _ANY:
        return r"(?:.*\n)*?"
    return ".*".join(map(re.escape, line.split(_ANY))) + r"\n"


def _squeezed(text: str) -> str:
    """Return the lines with single spaces, without empty lines."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)
