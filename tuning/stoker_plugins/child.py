"""The process in which one plug-in is asked: ``python -m stoker_plugins.child NAME VALUE DESCRIPTOR < question``."""

import json
import os
import resource
import sys
from base64 import b64decode
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from itertools import islice
from typing import Any, NoReturn

from stoker_plugins import order_child
from stoker_tuning.frameworks.answers import MOST_RULES, MOST_TEMPLATES
from stoker_tuning.frameworks.interface import FrameworkPlugin

_MOST_MEMORY = 1 << 30  # bytes of address space: libraries with threads map much, and use little
_MOST_CPU = 10  # seconds
_MOST_WORDS = 500


def limit(bounds: Sequence[tuple[int, int]] = ((resource.RLIMIT_CPU, _MOST_CPU),)) -> None:
    """Bound what this process can take, also by these limits; it can write no files."""
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
    """Import a plug-in; a class is called. Raises whatever it raises."""
    found: Any = EntryPoint(name, value, "").load()
    return found() if isinstance(found, type) else found


def answer(plugin: FrameworkPlugin, question: Any) -> dict[str, Any]:
    """Ask a plug-in everything. Raises whatever it raises."""
    files = [(path, b64decode(head)) for path, head in question["files"]]
    kind: Callable[[str, bytes], Any] = getattr(plugin, "model_kind", _no_kind)
    return {
        "name": plugin.name,
        "confidences": [plugin.detect(path, head) for path, head in files],
        "kinds": [kind(path, head) for path, head in files],
        "hints": plugin.hints(question["context"]),
        "rules": list(islice(plugin.default_rules(), MOST_RULES + 1)),
        "templates": list(islice(plugin.default_templates(), MOST_TEMPLATES + 1)),
    }


def _no_kind(path: str, head: bytes) -> str:
    return ""


def tell(name: str, value: str, question: Any, descriptor: int) -> NoReturn:
    """Write the answer of one plug-in, or what it raised, and end this process."""
    order = question.get(order_child.ORDER)
    try:
        if order_child.LOAD in question:
            limit(order_child.bounds({"samples": 0}))
            said = order_child.loaded(load(name, value))
        elif order is None:
            limit()
            said = json.dumps(answer(load(name, value), question)).encode()
        else:
            limit(order_child.bounds(order))
            said = order_child.answer(load(name, value), order)
    except Exception as error:  # noqa: BLE001 -- whatever a plug-in raises is its own, and told
        said = json.dumps({"failed": f"{type(error).__name__}: {error}"[:_MOST_WORDS]}).encode()
    with os.fdopen(descriptor, "wb") as out:
        out.write(said)
    os._exit(0)  # threads and exit handlers of the plug-in are not waited for


def main(argv: Sequence[str]) -> NoReturn:
    """Ask the plug-in that the command line names."""
    name, value, descriptor = argv
    tell(name, value, json.load(sys.stdin.buffer), int(descriptor))


if __name__ == "__main__":
    main(sys.argv[1:])
