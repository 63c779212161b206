"""Finds installed plug-ins by their packages' metadata; nothing of them is imported here."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from stoker_orders.predictors.interface import ENTRY_POINTS as ORDERS
from stoker_tuning.frameworks.answers import MOST_PLUGINS, is_framework_name
from stoker_tuning.frameworks.builtin_plugins import BUILT_IN
from stoker_tuning.frameworks.interface import ENTRY_POINTS

OURS = "stoker"


@dataclass(frozen=True)
class InstalledPlugin:
    """A plug-in that is installed. ``value``: its object, as entry points name it; ``origin``: the package.

    ``refused``: why it is not asked; empty when it is.
    """

    name: str
    value: str
    origin: str
    refused: str = ""


def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """Return the built-in plug-ins of frameworks, and those of packages that are installed with this interpreter."""
    builtin = [InstalledPlugin(name, value, OURS) for name, value in BUILT_IN.items()]
    return tuple([*builtin, *_judged(_entries(ENTRY_POINTS), set(BUILT_IN))][: MOST_PLUGINS + 1])


def installed_order_plugins() -> tuple[InstalledPlugin, ...]:
    """Return the order plug-ins of packages that are installed where this interpreter looks."""
    return tuple([*_judged(_entries(ORDERS), set())][: MOST_PLUGINS + 1])


def _entries(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value))


def _judged(entries: Iterable[EntryPoint], taken: set[str]) -> Iterator[InstalledPlugin]:
    for number, entry in enumerate(entries, len(taken)):
        refused = ""
        if not is_framework_name(entry.name):
            refused = "its name must be lower-case letters, digits, '.', '-' and '_', 40 at most"
        elif entry.name in taken:
            refused = "another plug-in has its name, and came first"
        elif number >= MOST_PLUGINS:
            refused = f"there are more than {MOST_PLUGINS} plug-ins"
        taken.add(entry.name)
        origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
        yield InstalledPlugin(entry.name[:40], entry.value, origin, refused)
