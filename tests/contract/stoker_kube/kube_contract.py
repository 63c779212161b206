"""The behavior of every ``Kube``, for the real API server and the one in memory.

Subclasses provide the fixtures ``kube`` and ``namespace``.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from stoker_kube.api import JSON, Kube, Object
from stoker_kube.errors import AlreadyExists, Conflict, NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.lease import LeaderElection
from stoker_kube.resources import EVENTS, LEASES, NODE_CACHES
from stoker_kube.watch import EventType, WatchEvent, watch
from tests.support.kinds import CONFIG_MAPS
from tests.support.waiting import eventually, take

DATASET = {"namespace": "vision", "name": "digits", "uid": "u1", "source": {"uri": "s3://bucket/digits/"}}


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def names_of(items: Sequence[Object]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in items)


@asynccontextmanager
async def running(coroutine: Any) -> Any:
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class KubeContract:
    """One behavior per test."""

    @pytest.fixture
    async def cache(self, kube: Kube) -> Object:
        """Create a NodeCache with one dataset: a kind that is cluster-scoped and has a status subresource."""
        body = {"metadata": {"name": f"node-{uuid4().hex[:8]}"}, "spec": {"datasets": [DATASET]}}
        return await kube.create(NODE_CACHES, body)

    async def test_a_created_object_is_got_with_what_the_server_adds(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", color="red"), namespace)
        got = await kube.get(CONFIG_MAPS, "a", namespace)
        assert got["data"] == {"color": "red"}
        assert got["kind"] == "ConfigMap"
        assert got["metadata"]["namespace"] == namespace
        assert {"uid", "resourceVersion", "creationTimestamp"} <= got["metadata"].keys()

    async def test_what_is_absent_is_not_found(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(NotFound, match="nothing"):
            await kube.get(CONFIG_MAPS, "nothing", namespace)

    async def test_a_name_is_taken_once(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        with pytest.raises(AlreadyExists):
            await kube.create(CONFIG_MAPS, config_map("a"), namespace)

    async def test_a_list_is_cut_by_labels(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", {"tier": "one"}), namespace)
        await kube.create(CONFIG_MAPS, config_map("b", {"tier": "two"}), namespace)
        await kube.create(CONFIG_MAPS, config_map("c"), namespace)
        for selector, wanted in (("tier=one", "a"), ("tier", "ab"), ("!tier", "c"), ("tier in (one,two)", "ab")):
            assert names_of((await kube.list(CONFIG_MAPS, namespace, selector)).items) == list(wanted)

    async def test_a_list_is_cut_by_fields(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        await kube.create(CONFIG_MAPS, config_map("b"), namespace)
        listing = await kube.list(CONFIG_MAPS, namespace, field_selector="metadata.name=b")
        assert names_of(listing.items) == ["b"]

    async def test_a_list_of_all_namespaces_has_this_one(self, kube: Kube, namespace: str) -> None:
        name = f"only-{uuid4().hex[:8]}"
        await kube.create(CONFIG_MAPS, config_map(name), namespace)
        assert name in names_of((await kube.list(CONFIG_MAPS)).items)

    async def test_listed_objects_name_their_kind(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        item = (await kube.list(CONFIG_MAPS, namespace)).items[0]
        assert (item["apiVersion"], item["kind"]) == ("v1", "ConfigMap")

    async def test_a_merge_patch_sets_and_removes(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", old="1", kept="2"), namespace)
        patched = await kube.patch(CONFIG_MAPS, "a", {"data": {"old": None, "new": "3"}}, namespace)
        assert patched["data"] == {"kept": "2", "new": "3"}

    async def test_a_json_patch_is_applied_in_order(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", color="red"), namespace)
        operations = [
            {"op": "test", "path": "/data/color", "value": "red"},
            {"op": "replace", "path": "/data/color", "value": "blue"},
        ]
        patched = await kube.patch(CONFIG_MAPS, "a", operations, namespace, content_type=JSON)
        assert patched["data"] == {"color": "blue"}

    async def test_a_patch_of_a_stale_version_conflicts(self, kube: Kube, namespace: str) -> None:
        first = await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        await kube.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace)
        stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"x": "2"}}
        with pytest.raises(Conflict):
            await kube.patch(CONFIG_MAPS, "a", stale, namespace)

    async def test_an_apply_onto_a_stale_version_conflicts(self, kube: Kube, namespace: str) -> None:
        first = await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        await kube.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace)
        metadata = {"name": "a", "namespace": namespace, "resourceVersion": first["metadata"]["resourceVersion"]}
        with pytest.raises(Conflict):
            await kube.apply(CONFIG_MAPS, {"metadata": metadata, "data": {"x": "2"}}, field_manager="late")

    async def test_only_the_version_keeps_a_status_from_a_new_object_of_the_name(
        self, kube: Kube, cache: Object
    ) -> None:
        name, old = cache["metadata"]["name"], cache["metadata"]
        await kube.delete(NODE_CACHES, name)
        await kube.create(NODE_CACHES, {"metadata": {"name": name}, "spec": {"datasets": []}})
        by_uid: Object = {"metadata": {"name": name, "uid": old["uid"]}, "status": {"address": "10.0.0.1:8081"}}
        applied = await kube.apply(NODE_CACHES, by_uid, field_manager="late", subresource="status")
        assert applied["status"]["address"] == "10.0.0.1:8081"
        versioned = by_uid | {"metadata": {"name": name, "resourceVersion": old["resourceVersion"]}}
        with pytest.raises(Conflict):
            await kube.apply(NODE_CACHES, versioned, field_manager="late", subresource="status")

    async def test_a_patch_that_changes_nothing_makes_no_new_version(self, kube: Kube, namespace: str) -> None:
        first = await kube.create(CONFIG_MAPS, config_map("a", x="1"), namespace)
        second = await kube.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace)
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    async def test_a_status_patch_leaves_the_spec_and_the_generation(self, kube: Kube, cache: Object) -> None:
        body = {"status": {"address": "10.0.0.1:8081"}, "spec": {"datasets": []}}
        patched = await kube.patch(NODE_CACHES, cache["metadata"]["name"], body, subresource="status")
        assert patched["status"]["address"] == "10.0.0.1:8081"
        assert patched["spec"]["datasets"][0]["uid"] == "u1"
        assert patched["metadata"]["generation"] == cache["metadata"]["generation"]

    async def test_a_spec_patch_leaves_the_status_and_counts_a_generation(self, kube: Kube, cache: Object) -> None:
        name = cache["metadata"]["name"]
        await kube.patch(NODE_CACHES, name, {"status": {"address": "10.0.0.1:8081"}}, subresource="status")
        patched = await kube.patch(NODE_CACHES, name, {"spec": {"datasets": []}, "status": {"address": "x"}})
        assert patched["status"]["address"] == "10.0.0.1:8081"
        assert patched["metadata"]["generation"] == cache["metadata"]["generation"] + 1

    async def test_apply_creates_and_then_gives_up_what_it_leaves_out(self, kube: Kube, namespace: str) -> None:
        first = {"metadata": {"name": "a", "namespace": namespace}, "data": {"one": "1", "two": "2"}}
        await kube.apply(CONFIG_MAPS, first, field_manager="us")
        second = {"metadata": {"name": "a", "namespace": namespace}, "data": {"two": "3"}}
        assert (await kube.apply(CONFIG_MAPS, second, field_manager="us"))["data"] == {"two": "3"}

    async def test_apply_leaves_what_others_wrote(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", theirs="1"), namespace)
        ours = {"metadata": {"name": "a", "namespace": namespace}, "data": {"ours": "2"}}
        assert (await kube.apply(CONFIG_MAPS, ours, field_manager="us"))["data"] == {"theirs": "1", "ours": "2"}

    async def test_apply_takes_characters_of_every_plane(self, kube: Kube, namespace: str) -> None:
        text = "a\\ud83d \x7f\x80\x85\u2028\ufeff\uffff \U0001f600\U0001ffff\U0010ffff\n\t'\""
        body = {"metadata": {"name": "a", "namespace": namespace}, "data": {"text": text}}
        assert (await kube.apply(CONFIG_MAPS, body, field_manager="us"))["data"] == {"text": text}

    async def test_apply_replaces_half_a_character(self, kube: Kube, namespace: str) -> None:
        body = {"metadata": {"name": "a", "namespace": namespace}, "data": {"text": "a\ud83db"}}
        assert (await kube.apply(CONFIG_MAPS, body, field_manager="us"))["data"] == {"text": "a\ufffdb"}

    async def test_a_deleted_object_is_gone(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        await kube.delete(CONFIG_MAPS, "a", namespace)
        with pytest.raises(NotFound):
            await kube.delete(CONFIG_MAPS, "a", namespace)

    async def test_a_delete_of_another_uid_conflicts(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        with pytest.raises(Conflict):
            await kube.delete(CONFIG_MAPS, "a", namespace, uid="another")

    async def test_a_finalizer_holds_a_deleted_object(self, kube: Kube, namespace: str) -> None:
        body = config_map("a")
        body["metadata"]["finalizers"] = ["stoker.dev/cleanup"]
        await kube.create(CONFIG_MAPS, body, namespace)
        await kube.delete(CONFIG_MAPS, "a", namespace)
        assert (await kube.get(CONFIG_MAPS, "a", namespace))["metadata"]["deletionTimestamp"]
        await kube.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, namespace)
        with pytest.raises(NotFound):
            await kube.get(CONFIG_MAPS, "a", namespace)

    async def test_a_watch_tells_what_is_there_and_then_each_change(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        async with aclosing(watch(kube, CONFIG_MAPS, namespace=namespace)) as events:
            assert _types(await take(2, events)) == [EventType.ADDED, EventType.SYNCED]
            await kube.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace)
            await kube.create(CONFIG_MAPS, config_map("b"), namespace)
            await kube.delete(CONFIG_MAPS, "a", namespace)
            told = await take(3, events)
        assert _types(told) == [EventType.MODIFIED, EventType.ADDED, EventType.DELETED]
        assert names_of([event.object for event in told]) == ["a", "a", "b"]

    async def test_an_object_that_leaves_the_selector_is_told_as_deleted(self, kube: Kube, namespace: str) -> None:
        await kube.create(CONFIG_MAPS, config_map("a", {"tier": "one"}), namespace)
        async with aclosing(watch(kube, CONFIG_MAPS, namespace=namespace, label_selector="tier=one")) as events:
            await take(2, events)
            await kube.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"tier": "two"}}}, namespace)
            assert _types(await take(1, events)) == [EventType.DELETED]

    async def test_a_watch_of_one_name_sees_only_that(self, kube: Kube, namespace: str) -> None:
        async with aclosing(watch(kube, CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=b")) as events:
            await take(1, events)
            await kube.create(CONFIG_MAPS, config_map("a"), namespace)
            await kube.create(CONFIG_MAPS, config_map("b"), namespace)
            assert names_of([event.object for event in await take(1, events)]) == ["b"]

    async def test_repeated_events_are_counted_in_one_object(self, kube: Kube, namespace: str) -> None:
        about = await kube.create(CONFIG_MAPS, config_map("a"), namespace)
        recorder = EventRecorder(kube, "stoker-test")
        async with running(recorder.run()):
            for _ in range(3):
                recorder.event(ObjectRef.of(about), "Warning", "AccessDenied", "The store refuses the key.")
                await eventually(lambda: recorder.idle)
        events = (await kube.list(EVENTS, namespace)).items
        assert [(event["reason"], event["count"]) for event in events] == [("AccessDenied", 3)]

    async def test_a_lease_has_one_holder_until_it_hands_it_over(self, kube: Kube, namespace: str) -> None:
        first = LeaderElection(kube, namespace, "leader", "one", retry=0.01)
        second = LeaderElection(kube, namespace, "leader", "two", retry=0.01)
        await first.acquire()
        async with running(second.acquire()) as waiting:
            assert (await kube.get(LEASES, "leader", namespace))["spec"]["holderIdentity"] == "one"
            assert not waiting.done()
            await first.release()
            await eventually(waiting.done)
        assert (await kube.get(LEASES, "leader", namespace))["spec"]["holderIdentity"] == "two"
        await second.release()


def _types(events: list[WatchEvent]) -> list[EventType]:
    return [event.type for event in events]
