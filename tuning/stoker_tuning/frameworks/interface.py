"""The interface of framework plug-ins. An author needs only the names and types here, and no import of Stoker."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

# The group of entry points under which packages register plug-ins; an entry's name is the framework's.
ENTRY_POINTS = "stoker.frameworks"
# Bytes of a file's beginning that a plug-in gets.
MOST_HEAD = 64 * 1024

Hint = float | int | str


class FrameworkPlugin(Protocol):
    """Recognizes one framework. ``name``: its name in ``workload_context``, and the name of the entry point.

    It runs in a separate process with a deadline and bounded memory. Its methods are called in any order, or not at
    all.
    """

    name: str

    def detect(self, path: str, head: bytes) -> float:
        """Return the confidence, 0 to 1, that a workload that reads or ships this file uses the framework.

        ``path``: in the Dataset or the image; ``head``: the file's first bytes, 64 KiB at most.
        """
        ...

    def hints(self, context: Mapping[str, Any]) -> Mapping[str, Hint]:
        """Return hints about the workload from its container.

        ``context``: ``image``, ``arguments`` (a list), ``environment`` (names and values). The only known hint is
        ``batch_size``, a number.
        """
        ...

    def default_rules(self) -> Sequence[Mapping[str, Any]]:
        """Return rules for workloads of the framework, in the format of documents (docs/reference/rules.md)."""
        ...

    def default_templates(self) -> Sequence[Mapping[str, Any]]:
        """Return templates, in the format of documents, for use in profiles."""
        ...


class ModelFilePlugin(FrameworkPlugin, Protocol):
    """A plug-in that also recognizes model files of its framework. This method is optional."""

    def model_kind(self, path: str, head: bytes) -> str:
        """Return a file's role in a model: Weights, Architecture, Optimizer, Checkpoint, Metadata; empty: unknown.

        It counts for files that Stoker does not recognize.
        """
        ...
