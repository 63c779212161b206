"""Signs of a framework in files and in containers, for the built-in plug-ins. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

# Signs of each framework in paths. The first match counts. Programs of PyTorch load TensorFlow for its TensorBoard, and
# those of JAX for its data pipelines. Programs that train with TensorFlow load neither of them.
_SIGNS = (
    ("pytorch", ("/libtorch_cpu.so", "/libtorch.so", "/libtorch_cuda.so", "/libtorch_python.so")),
    ("jax", ("/jaxlib/",)),
    ("tensorflow", ("/libtensorflow_framework.so", "/libtensorflow_cc.so", "/libtensorflow.so")),
)


def framework_of_libraries(paths: Collection[str]) -> str:
    """Return the framework's name in ``workload_context``; empty if no library shows one."""
    for framework, signs in _SIGNS:
        if any(sign in path for path in paths for sign in signs):
            return framework
    return ""


_SOURCES = (".py", ".ipynb")
_IMPORTS = 0.9
# A Python file imports in its first lines; the rest of a large file is data.
_MOST_SOURCE = 16 * 1024
_MOST_WORDS = 4096  # of a command line


def imports(path: str, head: bytes, modules: str) -> float:
    """Return the confidence that a Python file imports one of the modules: names with ``|`` between them."""
    if not path.endswith(_SOURCES):
        return 0.0
    pattern = rb'^\s*"?(?:import|from)\s+(?:%s)\b' % modules.encode()
    return _IMPORTS if re.search(pattern, head[:_MOST_SOURCE], re.MULTILINE) else 0.0


def named(path: str, confidences: Mapping[str, float]) -> float:
    """Return the confidence by name: by a part of the path, or by the suffix if the sign begins with a dot."""
    parts = PurePosixPath(path.lower()).parts
    name = parts[-1] if parts else ""
    found = (sure for sign, sure in confidences.items() if (name.endswith(sign) if sign[0] == "." else sign in parts))
    return max(found, default=0.0)


def batch_size(context: Mapping[str, Any], flags: Sequence[str], variables: Sequence[str]) -> dict[str, float]:
    """Return the batch size from the arguments, else from the environment; empty without one."""
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
    """Return the first number after each flag, in one pass: a line may be very long."""
    found: dict[str, float] = {}
    for place, word in enumerate(line):
        name, equals, value = word.partition("=")
        if name in flags and name not in found:
            number = _number(value if equals else "".join(line[place + 1 : place + 2]))
            found |= {name: number} if number else {}
    return found


def _number(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else 0.0
