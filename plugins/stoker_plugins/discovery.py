"""Finds installed plug-ins by the metadata of packages, without imports."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points

from stoker_orders.predictors.interface import ENTRY_POINTS as ORDERS
from stoker_tuning.frameworks.answers import MOST_PLUGINS, is_framework_name
from stoker_tuning.frameworks.builtin_plugins import BUILT_IN
from stoker_tuning.frameworks.interface import ENTRY_POINTS

OURS = "stoker"


class PluginKind(StrEnum):
    """The subject of a plug-in."""

    FRAMEWORK = "framework"
    ORDER = "order"


# By kind, the group of entry points, and the built-in plug-ins.
_GROUPS = {PluginKind.FRAMEWORK: (ENTRY_POINTS, BUILT_IN), PluginKind.ORDER: (ORDERS, {})}


@dataclass(frozen=True)
class InstalledPlugin:
    """An installed plug-in. ``value``: its object, in the notation of entry points. ``origin``: its package.

    ``refused``: the reason why it cannot be used, or empty.
    """

    name: str
    value: str
    origin: str
    refused: str = ""


def installed_plugins(kind: PluginKind = PluginKind.FRAMEWORK) -> tuple[InstalledPlugin, ...]:
    """Return the built-in plug-ins of a kind, and those of packages in this interpreter's environment."""
    group, builtin = _GROUPS[kind]
    ours = [InstalledPlugin(name, value, OURS) for name, value in builtin.items()]
    entries = sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value))
    return tuple([*ours, *_judged(entries, set(builtin))][: MOST_PLUGINS + 1])


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
