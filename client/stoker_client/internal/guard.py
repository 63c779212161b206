"""Keeps reporting from ending a training: nothing is raised, and missing attributes are unknown."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Hook = TypeVar("Hook", bound=Callable[..., Any])


def quiet(hook: Hook) -> Hook:
    """Wrap a hook so that it returns None when a framework's objects are not as expected."""

    @functools.wraps(hook)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return hook(*args, **kwargs)
        except Exception:  # noqa: BLE001 -- the boundary to a foreign training, which is worth more than a report
            return None

    return safe  # type: ignore[return-value] # same arguments, and the same result or None


def is_of_kind(thing: Any, name: str, package: str) -> bool:
    """Return True if an object is of that class of a package, without importing the package."""
    kind = type(thing)
    return kind.__name__ == name and kind.__module__.startswith(f"{package}.")


def found(root: Any, *names: str) -> Any:
    """Return a nested attribute or item, or None if one is missing."""
    for name in names:
        root = root.get(name) if isinstance(root, dict) else getattr(root, name, None)
    return root
