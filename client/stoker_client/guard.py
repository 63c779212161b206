"""Keeps what is reported from ever ending a training: nothing is raised, and what is not there is unknown."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Hook = TypeVar("Hook", bound=Callable[..., Any])


def quiet(hook: Hook) -> Hook:
    """Make a hook that ends quietly where objects of frameworks are other than expected."""

    @functools.wraps(hook)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return hook(*args, **kwargs)
        except Exception:  # noqa: BLE001 -- the boundary to a foreign training, which is worth more than a report
            return None

    return safe  # type: ignore[return-value] # same arguments, and the same result or None


def is_of_kind(thing: Any, name: str, package: str) -> bool:
    """Tell whether something is an object of that class of a package, which is not imported for it."""
    kind = type(thing)
    return kind.__name__ == name and kind.__module__.startswith(f"{package}.")


def found(root: Any, *names: str) -> Any:
    """Return an attribute's attribute (or item), and so on; None where one is missing."""
    for name in names:
        root = root.get(name) if isinstance(root, dict) else getattr(root, name, None)
    return root
