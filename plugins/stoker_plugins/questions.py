"""Questions for plug-ins: each kind has limits, a call of the plug-in, and a parser of the answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from stoker_plugins.discovery import PluginKind
from stoker_plugins.framework_question import FrameworkQuestion
from stoker_plugins.order_questions import order_question

A_co = TypeVar("A_co", covariant=True)


class PluginQuestion(Protocol[A_co]):
    """A question for plug-ins of one kind, with the limits of the kind."""

    @property
    def kind(self) -> PluginKind:
        """The kind of plug-in."""
        ...

    @property
    def seconds(self) -> float:
        """The longest time for an answer."""
        ...

    @property
    def most_bytes(self) -> int:
        """The length of the longest answer that the caller reads."""
        ...

    @property
    def limits(self) -> Sequence[tuple[int, int]]:
        """The resource limits of the plug-in's process, next to those of all kinds."""
        ...

    def mapping(self) -> dict[str, Any]:
        """Return the question as a JSON object."""
        ...

    def answer(self, plugin: Any) -> bytes:
        """Ask a loaded plug-in, in its own process. Raises any exception of the plug-in."""
        ...

    def read(self, name: str, said: bytes) -> A_co:
        """Check the answer of plug-in ``name``, which is hostile input. Raises PluginRefusedError."""
        ...


def parse_question(mapping: Mapping[str, Any]) -> PluginQuestion[object]:
    """Return the question in ``mapping``. Raises ValueError."""
    kind = PluginKind(str(mapping.get("kind")))
    return FrameworkQuestion.of(mapping) if kind is PluginKind.FRAMEWORK else order_question(mapping)
