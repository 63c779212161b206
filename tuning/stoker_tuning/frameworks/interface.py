"""What a framework plug-in is. Whoever writes one needs nothing of Stoker: the names and types here are enough."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

# The group of entry points under which packages name their plug-ins; an entry's name is the framework's.
ENTRY_POINTS = "stoker.frameworks"
# Bytes of a file's beginning that a plug-in is given.
MOST_HEAD = 64 * 1024

Hint = float | int | str


class FrameworkPlugin(Protocol):
    """Knows one framework. ``name``: as ``workload_context`` names it, and as the entry point is called.

    It is asked in a process of its own, with a deadline and bounded memory, in any order or not at all.
    """

    name: str

    def detect(self, path: str, head: bytes) -> float:
        """Tell how sure it is, 0 to 1, that a workload which reads or ships this file uses the framework.

        ``path``: in the Dataset or the image; ``head``: the file's first bytes, 64 KiB at most.
        """
        ...

    def hints(self, context: Mapping[str, Any]) -> Mapping[str, Hint]:
        """Tell what a container says of its workload.

        ``context``: ``image``, ``arguments`` (a list), ``environment`` (names and values). The hint that is known is
        ``batch_size``, a number.
        """
        ...

    def default_rules(self) -> Sequence[Mapping[str, Any]]:
        """Return rules for workloads of the framework, as documents write them (docs/RULES.md)."""
        ...

    def default_templates(self) -> Sequence[Mapping[str, Any]]:
        """Return templates, as documents write them, that profiles can put to use."""
        ...


class ModelFilePlugin(FrameworkPlugin, Protocol):
    """A plug-in that also knows model files of its framework; one without this method is as good."""

    def model_kind(self, path: str, head: bytes) -> str:
        """Tell what a file is to a model: Weights, Architecture, Optimizer, Checkpoint, Metadata; empty: not known.

        It counts for files that Stoker does not recognise itself.
        """
        ...
