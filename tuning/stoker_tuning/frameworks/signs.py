"""Signs of a framework in files and in containers, for the built-in plug-ins. Pure."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

_SOURCES = (".py", ".ipynb")
_IMPORTS = 0.9
# A Python file imports in its first lines; what stands behind them is data.
_MOST_SOURCE = 16 * 1024


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
    arguments = [word for argument in context["arguments"] for word in str(argument).split()]
    for flag in flags:
        for place, word in enumerate(arguments):
            name, equals, value = word.partition("=")
            if name == flag:
                value = value if equals else "".join(arguments[place + 1 : place + 2])
                if found := _number(value):
                    return {"batch_size": found}
    found = next(filter(None, (_number(context["environment"].get(name, "")) for name in variables)), 0.0)
    return {"batch_size": found} if found else {}


def _number(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else 0.0
