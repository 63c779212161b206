"""The process in which one plug-in is asked: ``python -m stoker_plugins.child NAME VALUE DESCRIPTOR < question``."""

import json
import os
import resource
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

from stoker_plugins.questions import PluginQuestion, parse_question

_MOST_MEMORY = 1 << 30  # bytes of address space: libraries with threads map much, and use little
_MOST_WORDS = 500
# A thread for each of the node's cores needs too much memory.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit(bounds: Sequence[tuple[int, int]]) -> None:
    """Limit the resources of this process, also by these bounds. It can write no files."""
    os.environ |= dict.fromkeys(_ONE_THREAD, "1")
    for kind, most in (
        (resource.RLIMIT_AS, _MOST_MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        *bounds,
    ):
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))


def load(name: str, value: str) -> Any:
    """Import a plug-in, and call it if it is a class. Raises any exception of the plug-in."""
    found: Any = EntryPoint(name, value, "").load()
    return found() if isinstance(found, type) else found


def tell(name: str, value: str, question: PluginQuestion[object], descriptor: int) -> NoReturn:
    """Write the answer of one plug-in, or its exception, and end this process."""
    try:
        limit(question.limits)
        said = question.answer(load(name, value))
    except Exception as error:  # noqa: BLE001 -- the caller shows any exception of a plug-in
        said = json.dumps({"failed": f"{type(error).__name__}: {error}"[:_MOST_WORDS]}).encode()
    with os.fdopen(descriptor, "wb") as out:
        out.write(said)
    os._exit(0)  # without waiting for the plug-in's threads and exit handlers


def main(argv: Sequence[str]) -> NoReturn:
    """Ask the plug-in that the command line names."""
    name, value, descriptor = argv
    tell(name, value, parse_question(json.load(sys.stdin.buffer)), int(descriptor))


if __name__ == "__main__":
    main(sys.argv[1:])
