"""Pages of a list. Objects are decoded one by one, so that a page does not block the event loop."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, overload

import msgspec

from stoker_kube.api import Object
from stoker_kube.resources import Kind


class _Body(msgspec.Struct):
    """The fields of a page. Objects stay encoded."""

    metadata: dict[str, Any] | None = None
    items: list[msgspec.Raw] | None = None


_body: Final = msgspec.json.Decoder(_Body)
_item: Final = msgspec.json.Decoder(Object)


class Page:
    """The metadata of a list, and its encoded objects."""

    def __init__(self, metadata: Mapping[str, Any], objects: Sequence[msgspec.Raw | Object]) -> None:
        self.metadata: Final = metadata
        self._objects: Final = objects

    def objects(self, kind: Kind) -> Sequence[Object]:
        """Return the objects with apiVersion and kind, which lists omit."""
        return _Objects(kind, self._objects)


class _Objects(Sequence[Object]):
    """The objects of a page. Each access decodes an object again."""

    def __init__(self, kind: Kind, objects: Sequence[msgspec.Raw | Object]) -> None:
        self._type: Final = {"apiVersion": kind.api_version, "kind": kind.kind}
        self._objects: Final = objects

    def __len__(self) -> int:
        return len(self._objects)

    @overload
    def __getitem__(self, index: int) -> Object: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Object]: ...

    def __getitem__(self, index: int | slice) -> Object | Sequence[Object]:
        if isinstance(index, int):
            return self._read(self._objects[index])
        return [self._read(item) for item in self._objects[index]]

    def __iter__(self) -> Iterator[Object]:
        return map(self._read, self._objects)

    def _read(self, item: msgspec.Raw | Object) -> Object:
        return self._type | (_decoded(item) if isinstance(item, msgspec.Raw) else item)


def read_page(content: bytes) -> Page:
    """Parse a page. Raises JSONDecodeError for invalid JSON."""
    try:
        body = _body.decode(content)
    except msgspec.MsgspecError:
        whole = json.loads(content)  # accepts more, and raises JSONDecodeError
        return Page(whole.get("metadata") or {}, whole.get("items") or [])
    return Page(body.metadata or {}, body.items or [])


def _decoded(raw: msgspec.Raw) -> Object:
    try:
        return _item.decode(raw)
    except msgspec.MsgspecError:
        item: Object = json.loads(bytes(raw))
        return item
