"""Pages of a list: an object is decoded when its turn comes, so that nobody waits while all of a page are."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, overload

import msgspec

from stoker_kube.api import Object
from stoker_kube.resources import Kind


class _Body(msgspec.Struct):
    """What is read of a page at once."""

    metadata: dict[str, Any] | None = None
    items: list[msgspec.Raw] | None = None


_body: Final = msgspec.json.Decoder(_Body)
_item: Final = msgspec.json.Decoder(Object)


class Page:
    """What a server answered: the list's metadata, and its objects as they are on the wire."""

    def __init__(self, metadata: Mapping[str, Any], objects: Sequence[msgspec.Raw | Object]) -> None:
        self.metadata: Final = metadata
        self._objects: Final = objects

    def objects(self, kind: Kind) -> Sequence[Object]:
        """Return the objects with their apiVersion and kind, which lists leave out."""
        return _Objects(kind, self._objects)


class _Objects(Sequence[Object]):
    """The objects of a page; each is decoded anew by each look at it."""

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
        return [self._read(one) for one in self._objects[index]]

    def __iter__(self) -> Iterator[Object]:
        return map(self._read, self._objects)

    def _read(self, found: msgspec.Raw | Object) -> Object:
        return self._type | (_decoded(found) if isinstance(found, msgspec.Raw) else found)


def read_page(content: bytes) -> Page:
    """Read a page. Raises JSONDecodeError for what is no JSON."""
    try:
        body = _body.decode(content)
    except msgspec.MsgspecError:
        whole = json.loads(content)  # which takes more, and says what is wrong as elsewhere
        return Page(whole.get("metadata") or {}, whole.get("items") or [])
    return Page(body.metadata or {}, body.items or [])


def _decoded(raw: msgspec.Raw) -> Object:
    try:
        return _item.decode(raw)
    except msgspec.MsgspecError:
        found: Object = json.loads(bytes(raw))
        return found
