"""An API server in memory, with the interface of the real client.

tests/contract/stoker_kube checks that both behave the same.

Implemented: resourceVersions, generations, UIDs, finalizers, the status subresource, label and field selectors,
patches, server-side apply by field manager (lists are replaced whole), watches with resume and 410. Not implemented:
admission, defaulting, pruning, garbage collection by ownerReferences and controllers.
"""

import asyncio
import copy
import json
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import jsonpatch

from stoker_kube.api import MERGE, Kube, Listing, Object, PatchBody, PatchType, Propagation
from stoker_kube.client import apply_body, namespace_of, typed
from stoker_kube.errors import AlreadyExists, Conflict, Expired, KubeError, NotFound, Unauthorized
from stoker_kube.resources import (
    ADMISSION_CHECKS,
    DATASETS,
    EVENTS,
    NODE_CACHES,
    NODES,
    PODS,
    SECRETS,
    TRAINING_JOBS,
    TUNING_PROFILES,
    WORKLOADS,
    Kind,
)
from tests.fakes.selectors import matches_fields, matches_labels

_WITH_STATUS = {DATASETS, TRAINING_JOBS, NODE_CACHES, TUNING_PROFILES, PODS, NODES, ADMISSION_CHECKS, WORKLOADS}
_WITHOUT_GENERATION = {SECRETS, EVENTS}
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Change:
    version: int
    kind: Kind
    type: str
    object: Object
    before: Object | None


class FakeKube:
    """Holds objects. Every returned object is a copy."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._objects: dict[Kind, dict[_Key, Object]] = {}
        self._applied: dict[tuple[Kind, _Key, str, str], Object] = {}
        self._history: list[_Change] = []
        self._version = 0
        self._compacted = 0
        self._changed = asyncio.Event()
        self._connection = 0
        self._faults: list[tuple[str, Kind | None, KubeError]] = []
        self._refused: dict[tuple[str, Kind], KubeError] = {}
        self.outage: KubeError | None = None
        self.requests: list[tuple[str, str]] = []  # (verb, plural), for tests that count requests
        self.bearers: list[tuple[str, str, str]] = []  # (token, verb, plural) of requests by ``as_bearer``
        self.ended_tokens: set[str] = set()
        self.subresource_answers: dict[tuple[str, str], Callable[[str, str, Object], Object]] = {}

    # Controls for tests.

    def fail_next(self, verb: str, kind: Kind | None, error: KubeError) -> None:
        """Make the next request of that verb (and kind) raise ``error``."""
        self._faults.append((verb, kind, error))

    def refuse(self, verb: str, kind: Kind, error: KubeError) -> None:
        """Make every request of that verb and kind raise ``error`` from now on."""
        self._refused[(verb, kind)] = error

    def allow(self, verb: str, kind: Kind) -> None:
        """Revert ``refuse``."""
        del self._refused[(verb, kind)]

    def break_connections(self) -> None:
        """End every watch, as a restarted server does."""
        self._connection += 1
        self._notify()

    def compact(self) -> None:
        """Forget the history: watches that resume get 410."""
        self._compacted = self._version
        self._history.clear()
        self.break_connections()

    def objects(self, kind: Kind) -> list[Object]:
        """Return all objects of a kind, without counting a request."""
        return [copy.deepcopy(item) for _, item in sorted(self._objects.get(kind, {}).items())]

    # The interface.

    def as_bearer(self, token: str) -> Kube:
        return cast(Kube, _Bearer(self, token))

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        self._admit("get", kind)
        return copy.deepcopy(self._find(kind, name, namespace))

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        self._admit("list", kind)
        chosen = [
            copy.deepcopy(item)
            for item in self.objects(kind)
            if _selected(item, namespace, label_selector, field_selector)
        ]
        return Listing(chosen, str(self._version))

    async def pages(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing]:
        yield await self.list(kind, namespace, label_selector, field_selector)

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        self._admit("create", kind)
        item = typed(kind, copy.deepcopy(body))
        if kind.namespaced:
            item["metadata"].setdefault("namespace", namespace or namespace_of(body))
        if kind in _WITH_STATUS and kind not in (PODS, NODES):
            item.pop("status", None)
        return copy.deepcopy(self._insert(kind, item))

    async def apply(self, kind: Kind, body: Object, *, field_manager: str, subresource: str = "") -> Object:
        self._admit("patch", kind)
        body = json.loads(apply_body(body))  # when it is called
        name, namespace = body["metadata"]["name"], namespace_of(body)
        key = (namespace, name)
        owned = (kind, key, field_manager, subresource)
        if key not in self._objects.get(kind, {}) and not subresource:
            item = self._insert(kind, typed(kind, copy.deepcopy(body)))
            self._applied[owned] = copy.deepcopy(body)
            return copy.deepcopy(item)
        after = copy.deepcopy(self._find(kind, name, namespace))
        _check_version(kind, after, body)
        _give_up(after, self._applied.get(owned, {}), body)
        _merge(after, copy.deepcopy(body))
        self._applied[owned] = copy.deepcopy(body)
        return copy.deepcopy(self._replace(kind, after, subresource))

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: PatchBody,
        namespace: str = "",
        *,
        subresource: str = "",
        content_type: PatchType = MERGE,
    ) -> Object:
        self._admit("patch", kind)
        before = self._find(kind, name, namespace)
        after = copy.deepcopy(before)
        if content_type is MERGE:
            assert isinstance(body, dict), "a merge patch is an object"
            _check_version(kind, before, body)
            _merge(after, copy.deepcopy(body))
        else:
            after = jsonpatch.apply_patch(after, json.dumps(body))
        return copy.deepcopy(self._replace(kind, after, subresource))

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", *, uid: str = "", propagation: Propagation = "Background"
    ) -> None:
        self._admit("delete", kind)
        item = self._find(kind, name, namespace)
        if uid and uid != item["metadata"]["uid"]:
            raise Conflict(409, "Conflict", f"the UID of {kind.plural} {name!r} is not {uid}")
        if item["metadata"].get("finalizers"):
            after = copy.deepcopy(item)
            after["metadata"].setdefault("deletionTimestamp", self._now())
            self._store(kind, after)
        else:
            self._remove(kind, item)

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Object) -> Object:
        self._admit("create", kind)
        self._find(kind, name, namespace)
        return self.subresource_answers[(kind.plural, subresource)](name, namespace, body)

    async def stream(
        self,
        kind: Kind,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[Object]:
        self._admit("watch", kind)
        connection, position = self._connection, int(resource_version)
        if position < self._compacted:
            raise Expired(410, "Expired", f"resourceVersion {resource_version} is too old")
        while connection == self._connection:
            changed = self._changed  # taken before the check, so that no change is missed in between
            pending = [change for change in self._history if change.version > position]
            for change in pending:
                position = change.version
                event = _event(change, kind, (namespace, label_selector, field_selector))
                if event is not None:
                    yield event
            if not pending:
                await changed.wait()

    # Storage.

    def _admit(self, verb: str, kind: Kind | None) -> None:
        self.requests.append((verb, kind.plural if kind else ""))
        for fault in self._faults:
            if fault[0] == verb and fault[1] in (None, kind):
                self._faults.remove(fault)
                raise fault[2]
        if kind is not None and (verb, kind) in self._refused:
            raise self._refused[(verb, kind)]
        if self.outage is not None:
            raise self.outage

    def _find(self, kind: Kind, name: str, namespace: str) -> Object:
        try:
            return self._objects[kind][(namespace, name)]
        except KeyError as error:
            raise NotFound(404, "NotFound", f"{kind.plural} {name!r} not found") from error

    def _insert(self, kind: Kind, item: Object) -> Object:
        meta = item["metadata"]
        if "generateName" in meta and "name" not in meta:
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        if (namespace_of(item), meta["name"]) in self._objects.get(kind, {}):
            raise AlreadyExists(409, "AlreadyExists", f"{kind.plural} {meta['name']!r} already exists")
        meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": self._now()}
        if kind not in _WITHOUT_GENERATION:
            meta["generation"] = 1
        return self._store(kind, item)

    def _replace(self, kind: Kind, after: Object, subresource: str) -> Object:
        before = self._find(kind, after["metadata"]["name"], namespace_of(after))
        after = _scoped(kind, before, after, subresource)
        if _same(before, after):
            return before
        if _content(before) != _content(after) and kind not in _WITHOUT_GENERATION:
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self._remove(kind, after)
            return after
        return self._store(kind, after)

    def _store(self, kind: Kind, item: Object) -> Object:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        key = (namespace_of(item), item["metadata"]["name"])
        before = self._objects.setdefault(kind, {}).get(key)
        self._objects[kind][key] = item
        self._record(_Change(self._version, kind, "ADDED" if before is None else "MODIFIED", item, before))
        return item

    def _remove(self, kind: Kind, item: Object) -> None:
        self._version += 1
        key = (namespace_of(item), item["metadata"]["name"])
        del self._objects[kind][key]
        for owned in [owned for owned in self._applied if owned[:2] == (kind, key)]:
            del self._applied[owned]
        last = copy.deepcopy(item)
        last["metadata"]["resourceVersion"] = str(self._version)
        self._record(_Change(self._version, kind, "DELETED", last, item))

    def _record(self, change: _Change) -> None:
        self._history.append(change)
        self._notify()

    def _notify(self) -> None:
        """Wake every waiting watch once."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")


class _Bearer:
    """The reads with a different token."""

    def __init__(self, kube: FakeKube, token: str) -> None:
        self._kube = kube
        self._token = token

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        self._admit("get", kind)
        return await self._kube.get(kind, name, namespace)

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Object) -> Object:
        self._admit("create", kind)
        return await self._kube.create_subresource(kind, name, namespace, subresource, body)

    def _admit(self, verb: str, kind: Kind) -> None:
        if self._token in self._kube.ended_tokens:
            raise Unauthorized(401, "Unauthorized", "the token has ended")
        self._kube.bearers.append((self._token, verb, kind.plural))


def _check_version(kind: Kind, item: Object, body: Object) -> None:
    meta = item["metadata"]
    wanted = (body.get("metadata") or {}).get("resourceVersion")
    if wanted and wanted != meta["resourceVersion"]:
        raise Conflict(409, "Conflict", f"{kind.plural} {meta['name']!r} has been changed since it was read")


def _selected(item: Object, namespace: str, label_selector: str, field_selector: str) -> bool:
    if namespace and namespace_of(item) != namespace:
        return False
    labels = item["metadata"].get("labels") or {}
    return matches_labels(labels, label_selector) and matches_fields(item, field_selector)


def _event(change: _Change, kind: Kind, scope: tuple[str, str, str]) -> Object | None:
    """Return the event for a watcher of that scope: an object that enters or leaves a selector is added or deleted."""
    if change.kind != kind:
        return None
    before = change.before is not None and _selected(change.before, *scope)
    after = change.type != "DELETED" and _selected(change.object, *scope)
    if not before and not after:
        return None
    told = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
    return {"type": told, "object": copy.deepcopy(change.object)}


def _scoped(kind: Kind, before: Object, after: Object, subresource: str) -> Object:
    """Limit a write to its part: one to ``status`` changes only that, one to the object keeps its status."""
    after["metadata"] = after["metadata"] | {
        field: before["metadata"][field] for field in ("uid", "creationTimestamp", "resourceVersion")
    }
    if subresource == "status":
        out = copy.deepcopy(before)
        out["status"] = after.get("status", {})
        return out
    if kind in _WITH_STATUS:
        after.pop("status", None)
        if "status" in before:
            after["status"] = copy.deepcopy(before["status"])
    return after


def _content(item: Object) -> Object:
    return {field: value for field, value in item.items() if field not in ("metadata", "status")}


def _same(before: Object, after: Object) -> bool:
    return json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)


def _merge(target: Object, patch: Object) -> None:
    """Merge a patch into the target, as in RFC 7386."""
    for field, value in patch.items():
        if value is None:
            target.pop(field, None)
        elif isinstance(value, dict):
            inner = target.get(field)
            target[field] = inner if isinstance(inner, dict) else {}
            _merge(target[field], value)
        else:
            target[field] = value


def _give_up(target: Any, was: Any, now: Any) -> None:
    """Remove the fields that this manager applied before but not now."""
    if not (isinstance(target, dict) and isinstance(was, dict) and isinstance(now, dict)):
        return
    for field, value in was.items():
        if field not in now:
            if isinstance(value, dict) and isinstance(target.get(field), dict):
                _give_up(target[field], value, {})
                if target[field]:
                    continue
            target.pop(field, None)
        else:
            _give_up(target.get(field), value, now[field])
