"""Signs of a framework in files and in containers, for the built-in plug-ins. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

_SOURCES = (".py", ".ipynb")
_IMPORTS = 0.9
# A Python file imports in its first lines; what stands behind them is data.
_MOST_SOURCE = 16 * 1024
_MOST_WORDS = 4096  # of a command line


def imports(path: str, head: bytes, modules: str) -> float:
    """Tell how sure it is that a Python file imports one of the modules: names with ``|`` between them."""
    if not path.endswith(_SOURCES):
        return 0.0
    pattern = rb'^\s*"?(?:import|from)\s+(?:%s)\b' % modules.encode()
    return _IMPORTS if re.search(pattern, head[:_MOST_SOURCE], re.MULTILINE) else 0.0


def named(path: str, confidences: Mapping[str, float]) -> float:
    """Tell how sure the name makes: by a part of the path, or by its end where the sign begins with a dot."""
    parts = PurePosixPath(path.lower()).parts
    name = parts[-1] if parts else ""
    found = (sure for sign, sure in confidences.items() if (name.endswith(sign) if sign[0] == "." else sign in parts))
    return max(found, default=0.0)


def batch_size(context: Mapping[str, Any], flags: Sequence[str], variables: Sequence[str]) -> dict[str, float]:
    """Return the batch size that arguments say, else the environment; empty where neither does."""
    said = _said(list(islice(words(context["arguments"]), _MOST_WORDS)), flags)
    told = (
        *(said.get(flag, 0.0) for flag in flags),
        *(_number(context["environment"].get(one, "")) for one in variables),
    )
    found = next(filter(None, told), 0.0)
    return {"batch_size": found} if found else {}


def words(arguments: Iterable[Any]) -> Iterator[str]:
    """Yield the words of a command line, also those of a script that is one of its arguments."""
    return (word for argument in arguments for word in str(argument).split())


def _said(line: Sequence[str], flags: Sequence[str]) -> dict[str, float]:
    """Return the first number that stands with each flag, in one pass: a line may be as long as anyone likes."""
    found: dict[str, float] = {}
    for place, word in enumerate(line):
        name, equals, value = word.partition("=")
        if name in flags and name not in found:
            number = _number(value if equals else "".join(line[place + 1 : place + 2]))
            found |= {name: number} if number else {}
    return found


def _number(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else 0.0
