"""The pass over Datasets against the in-memory API server."""

import itertools

import pytest

from stoker_api import names
from stoker_api.names import Reason
from stoker_kube.errors import Conflict, Forbidden
from stoker_kube.resources import DATASETS, NODE_CACHES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stoker_operator.reconcilers.dataset_statuses import FIGURES_EVERY
from stoker_operator.writes.writer import Writer
from tests.unit.stoker_operator.world import World


async def test_a_node_gets_its_cache_and_the_dataset_in_two_passes(world: World) -> None:
    await world.add_dataset()
    await world.step()
    await world.step()
    raw = await world.kube.get(NODE_CACHES, "a")
    assert raw["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert [entry.name for entry in (await world.cache()).spec.datasets] == ["imagenet"]
    assert (await world.dataset()).status.listing_node == "a"


async def test_a_pass_with_nothing_new_writes_nothing(world: World) -> None:
    await world.add_dataset()
    for _ in range(3):
        await world.step()
    before = [
        item["metadata"]["resourceVersion"] for kind in (DATASETS, NODE_CACHES) for item in world.kube.objects(kind)
    ]
    world.now += 60
    await world.step()
    after = [
        item["metadata"]["resourceVersion"] for kind in (DATASETS, NODE_CACHES) for item in world.kube.objects(kind)
    ]
    assert after == before


async def test_figures_are_written_every_two_seconds_at_most_and_transitions_at_once(world: World) -> None:
    await world.add_dataset()
    for warm in (0, 100):
        await world.step()
        await world.step()
        await world.report(warm)
    world.now += FIGURES_EVERY
    await world.step()
    assert (await world.dataset()).status.cached_percent == "10%"
    await world.report(200)
    again = await world.step()
    assert ((await world.dataset()).status.cached_percent, again) == ("10%", FIGURES_EVERY)
    world.now += FIGURES_EVERY
    await world.step()
    assert (await world.dataset()).status.cached_percent == "20%"
    await world.report(1000)
    await world.step()
    assert (await world.dataset()).status.phase == "Ready"
    assert ("Normal", Reason.WARM) in world.events.seen


@pytest.mark.parametrize("uri", ["s3://bucket/", "gs://bucket/"], ids=["valid", "invalid"])
async def test_a_dataset_is_held_from_its_first_pass_on(world: World, uri: str) -> None:
    await world.start(source={"uri": uri})
    assert world.kube.objects(DATASETS)[0]["metadata"]["finalizers"] == [names.FINALIZER]


@pytest.mark.parametrize("uri", ["s3://bucket/", "gs://bucket/"], ids=["valid", "invalid"])
async def test_the_first_status_follows_the_finalizer(world: World, uri: str) -> None:
    await world.add_dataset(source={"uri": uri})
    await world.step()
    first = world.kube.objects(DATASETS)[0]
    assert (first["metadata"]["finalizers"], "status" in first) == ([names.FINALIZER], False)
    await world.step()
    assert "status" in world.kube.objects(DATASETS)[0]


@pytest.mark.expected_logs("a policy says no")
async def test_a_refused_finalizer_delays_the_status_by_one_pass(world: World) -> None:
    await world.add_dataset()
    world.kube.fail_next("patch", DATASETS, Forbidden(403, "Forbidden", "a policy says no"))
    await world.run(2)
    refused = world.kube.objects(DATASETS)[0]
    assert "finalizers" not in refused["metadata"]
    assert "a policy says no" in str(refused["status"]["conditions"])


async def test_nothing_but_finalizer_and_status_is_written_onto_a_dataset(world: World) -> None:
    await world.add_dataset()
    before = world.kube.objects(DATASETS)[0]
    await world.run(3)
    after = world.kube.objects(DATASETS)[0]
    del after["status"]
    for field in ("resourceVersion", "generation"):
        del before["metadata"][field], after["metadata"][field]
    before["metadata"]["finalizers"] = [names.FINALIZER]
    assert after == before


async def test_a_late_status_does_not_reach_a_new_dataset_of_the_name(world: World) -> None:
    await world.start(passes=2)
    old = await world.dataset()
    await world.kube.patch(DATASETS, "imagenet", {"metadata": {"finalizers": []}}, "vision")
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.add_dataset()
    with pytest.raises(Conflict):
        await Writer(world.kube).dataset_status(old.metadata, old.status)
    assert "status" not in world.kube.objects(DATASETS)[0]


async def test_foreign_finalizers_stay(world: World) -> None:
    await world.add_dataset()
    await world.kube.patch(DATASETS, "imagenet", {"metadata": {"finalizers": ["theirs.dev/x"]}}, "vision")
    await world.run()
    assert world.kube.objects(DATASETS)[0]["metadata"]["finalizers"] == ["theirs.dev/x", names.FINALIZER]
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.run(2)
    assert world.kube.objects(DATASETS)[0]["metadata"]["finalizers"] == ["theirs.dev/x"]


@pytest.mark.parametrize("uri", ["s3://bucket/", "gs://bucket/"], ids=["valid", "invalid"])
async def test_an_unused_deleted_dataset_goes_with_its_volume_and_claim(world: World, uri: str) -> None:
    await world.start(source={"uri": uri})
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.run(2)
    assert world.kube.objects(DATASETS) == world.kube.objects(PERSISTENT_VOLUMES) == []


async def test_a_deleted_dataset_stays_while_a_node_has_it(world: World) -> None:
    await world.start(passes=2)
    await world.report(warm=1000)
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.run(2)
    assert (await world.dataset()).status.phase == "Terminating"


async def test_a_dataset_that_changed_meanwhile_is_held_in_the_next_pass(world: World) -> None:
    await world.add_dataset()
    await world.kube.patch(DATASETS, "imagenet", {"metadata": {"labels": {"a": "b"}}}, "vision")
    await world.step()
    assert "finalizers" not in world.kube.objects(DATASETS)[0]["metadata"]
    await world.run()
    assert world.kube.objects(DATASETS)[0]["metadata"]["finalizers"] == [names.FINALIZER]


async def test_a_new_spec_causes_one_event(world: World) -> None:
    await world.start(passes=2)
    await world.kube.patch(DATASETS, "imagenet", {"spec": {"cache": {"replicas": 2}}}, "vision")
    await world.run(2)
    assert [reason for _, reason in world.events.seen].count("Accepted") == 2


async def test_a_dataset_with_an_emoji_is_written_like_any_other(world: World) -> None:
    await world.add_dataset(source={"uri": "s3://bucket/\U0001f600/", "include": ["\U0001f600*"]})
    await world.step()
    await world.step()
    assert (await world.cache()).spec.datasets[0].source.uri == "s3://bucket/\U0001f600/"


async def test_a_dataset_that_does_not_parse_says_why(world: World) -> None:
    await world.add_dataset(source={"uri": "gs://bucket/"})
    await world.run(2)
    accepted = (await world.dataset()).status.conditions[0]
    assert (accepted.type, accepted.status) == ("Accepted", "False")
    assert "gs://bucket/ is not supported" in accepted.message
    assert ("Warning", Reason.INVALID_SPEC) in world.events.seen


async def test_volume_and_claim_are_created_and_a_released_volume_is_replaced(world: World) -> None:
    await world.start(passes=3)
    volume = world.kube.objects(PERSISTENT_VOLUMES)[0]
    assert len(world.kube.objects(PERSISTENT_VOLUME_CLAIMS)) == 1
    status = {"status": {"phase": "Released"}}
    await world.kube.patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], status, subresource="status")
    world.now += 3600
    await world.run()
    assert world.kube.objects(PERSISTENT_VOLUMES)[0]["metadata"]["uid"] != volume["metadata"]["uid"]


async def test_a_foreign_claim_stays_and_causes_an_event(world: World) -> None:
    foreign = {"metadata": {"name": "imagenet", "namespace": "vision"}, "spec": {"volumeName": "theirs"}}
    await world.kube.create(PERSISTENT_VOLUME_CLAIMS, foreign)
    await world.start(passes=3)
    claim = await world.kube.get(PERSISTENT_VOLUME_CLAIMS, "imagenet", "vision")
    assert claim["spec"]["volumeName"] == "theirs"
    world.now += FIGURES_EVERY
    await world.run()
    assert "is not Stoker's" in (await world.dataset()).status.conditions[0].message
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.run()
    assert len(world.kube.objects(PERSISTENT_VOLUME_CLAIMS)) == 1


async def test_a_leader_that_begins_goes_on_telling_of_a_foreign_claim_and_writes_nothing(world: World) -> None:
    await world.kube.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "imagenet", "namespace": "vision"}})
    await world.start(passes=3)
    world.now += FIGURES_EVERY
    await world.run()
    before = world.kube.objects(DATASETS)
    world.begin_anew()
    await world.run(3)
    assert world.kube.objects(DATASETS) == before


async def test_a_foreign_claim_removed_before_a_new_leader_leaves_no_message(world: World) -> None:
    await world.kube.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "imagenet", "namespace": "vision"}})
    await world.start(passes=3)
    await world.kube.delete(PERSISTENT_VOLUME_CLAIMS, "imagenet", "vision")
    world.begin_anew()
    await world.run(3)
    assert (await world.dataset()).status.conditions[0].message == "the spec is valid"


async def test_checks_of_existing_volumes_are_spread_over_time(world: World) -> None:
    for number in range(10):
        await world.start(f"data-{number}", passes=4)
    world.kube.requests.clear()
    looked = []
    for _ in range(30):
        world.now += 10.0
        await world.run()
        looked.append(world.kube.requests.count(("get", "persistentvolumes")))
    assert looked[13] == 0  # 140 s after the first checks: the next check is due after at least half of 300 s
    assert looked[-1] >= 10
    assert max(b - a for a, b in itertools.pairwise(looked)) < 5
    assert {verb for verb, kind in world.kube.requests if kind.startswith("persistent")} == {"get"}
