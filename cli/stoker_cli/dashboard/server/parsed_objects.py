"""Parsed objects of a kind. An unchanged object is not parsed again."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from pydantic import ValidationError

from stoker_api.meta import Resource
from stoker_api.tolerant import read_tolerantly
from stoker_kube.api import Object

R = TypeVar("R", bound=Resource)


class ParsedObjects(Generic[R]):
    """The last parsed objects by key."""

    def __init__(self, model: type[R]) -> None:
        self._model = model
        self._known: dict[str, tuple[str, R]] = {}

    def parse(self, items: Sequence[Object]) -> dict[str, R]:
        """Return the objects by key, without those that this release cannot read."""
        parsed: dict[str, tuple[str, R]] = {}
        for item in items:
            meta = item["metadata"]
            key, version = (
                f"{meta.get('namespace', '')}/{meta['name']}",
                f"{meta.get('uid')}/{meta.get('resourceVersion')}",
            )
            known = self._known.get(key)
            try:
                parsed[key] = (
                    known if known and known[0] == version else (version, read_tolerantly(self._model, item)[0])
                )
            except ValidationError:
                continue
        self._known = parsed
        return {key: value for key, (_, value) in parsed.items()}
