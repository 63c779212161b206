"""The pass over TrainingJobs against the in-memory API server."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.goodput import EndedPod
from stoker_api.names import ConditionType
from stoker_api.nodecache import NodeCache
from stoker_api.trainingjob import JobPhase, TrainingJob
from stoker_kube.errors import Forbidden, Invalid, NotFound, Unavailable
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import JOBS, SERVICES, TRAINING_JOBS
from stoker_operator.core.acceptance import parse_training_job
from stoker_operator.core.job_goodput import GRACE
from stoker_operator.core.jobs import make_job
from stoker_operator.core.views import Owner
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.training_jobs import TrainingJobReconciler
from stoker_operator.writer import Writer
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import listed
from tests.unit.stoker_operator.clusters import VERSION, dataset, holding
from tests.unit.stoker_operator.training import ended, released, training_job


class Recorded(EventRecorder):
    """Keeps events instead of writing them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def event(self, ref: ObjectRef, type: str, reason: str, message: str) -> None:
        self.seen.append(reason)


class World:
    """An API server, the mirror of it, and a clock."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.state = ClusterState("stoker")
        self.events = Recorded()
        self.now = 1_800_000_000.0
        self.reconciler = TrainingJobReconciler(Writer(self.kube), self.state, self.events, lambda: self.now)
        self.state.datasets.put("vision/imagenet", dataset())

    async def apply(self, **spec: Any) -> None:
        body = training_job(**spec).wire()
        del body["status"]
        raw = await self.kube.apply(TRAINING_JOBS, body, field_manager="user")
        self.state.training_jobs.put("vision/ddp", TrainingJob.model_validate(raw))

    async def run(self, passes: int = 1) -> float | None:
        for _ in range(passes):
            await self.reconciler.reconcile()
            await self.reconciler.work.settled()
        return self.reconciler.work.due()

    async def training(self) -> TrainingJob:
        return TrainingJob.model_validate(await self.kube.get(TRAINING_JOBS, "ddp", "vision"))

    async def job(self) -> dict[str, Any]:
        return await self.kube.get(JOBS, "ddp", "vision")

    async def end_job(self, kind: str) -> None:
        status = {"status": {"conditions": [ended(kind)], "completionTime": "2027-01-15T08:00:00Z"}}
        job = await self.kube.patch(JOBS, "ddp", status, "vision")
        self.state.jobs.put("vision/ddp", job)

    async def reason(self, kind: ConditionType) -> str:
        conditions = (await self.training()).status.conditions
        return next(one.reason for one in conditions if one.type == kind)


def made_anew() -> Dataset:
    old = dataset()
    return old.model_copy(update={"metadata": old.metadata.model_copy(update={"uid": "anew"})})


@pytest.fixture
def world() -> World:
    return World()


async def test_service_and_job_are_made(world: World) -> None:
    await world.apply()
    await world.run()
    assert (await world.kube.get(SERVICES, "ddp", "vision"))["spec"]["clusterIP"] == "None"
    assert (await world.job())["spec"]["completions"] == 2


async def test_how_warm_its_data_is_follows_what_nodes_report(world: World) -> None:
    await world.apply()
    found = []
    for share in (0.25, 0.5):
        world.state.node_caches.put("a", holding("a", share))
        await world.run(passes=2)
        found.append((await world.training()).status.data)
    assert found == ["25%", "50%"]


async def test_a_second_pass_writes_nothing(world: World) -> None:
    await world.apply()
    await world.run()
    before = len(world.kube.requests)
    await world.run()
    assert len(world.kube.requests) == before


async def test_without_its_dataset_it_waits_and_says_so(world: World) -> None:
    world.state.datasets.put("vision/imagenet", None)
    await world.apply()
    await world.run()
    assert (await world.training()).status.phase is JobPhase.WAITING_FOR_DATA
    assert await world.reason(ConditionType.DATA_READY) == "DatasetNotFound"
    assert world.kube.objects(JOBS) == []


async def test_it_starts_once_the_dataset_is_there(world: World) -> None:
    world.state.datasets.put("vision/imagenet", None)
    await world.apply()
    await world.run()
    world.state.datasets.put("vision/imagenet", made_anew())
    await world.run()
    assert len(world.kube.objects(JOBS)) == 1


@pytest.mark.parametrize("kind", [SERVICES, JOBS])
@pytest.mark.expected_logs("is not this TrainingJob's")
async def test_a_foreign_child_of_the_name_is_left_alone_and_told_of(world: World, kind: Any) -> None:
    foreign = {"metadata": {"name": "ddp", "namespace": "vision"}, "spec": {"mine": True}}
    await world.kube.create(kind, foreign, "vision")
    await world.apply()
    again = await world.run()
    assert await world.reason(ConditionType.ACCEPTED) == "NameTaken"
    assert (await world.kube.get(kind, "ddp", "vision"))["spec"] == {"mine": True}
    assert again == 15.0


@pytest.mark.expected_logs("is not this TrainingJob's")
async def test_a_name_that_became_free_is_taken_at_the_next_try(world: World) -> None:
    foreign = {"metadata": {"name": "ddp", "namespace": "vision"}}
    await world.kube.create(JOBS, foreign, "vision")
    await world.apply()
    await world.run()
    await world.kube.delete(JOBS, "ddp", "vision")
    world.now += 16
    await world.run()
    assert await world.reason(ConditionType.ACCEPTED) == "Accepted"


@pytest.mark.expected_logs("the API server refuses it")
async def test_the_api_servers_sentence_about_the_template_is_shown(world: World) -> None:
    world.kube.fail_next("create", JOBS, Invalid(422, "Invalid", "spec.template.spec.containers[0].image: Required"))
    await world.apply()
    await world.run()
    accepted = next(one for one in (await world.training()).status.conditions if one.type == "Accepted")
    assert (accepted.reason, "containers[0].image: Required" in accepted.message) == ("InvalidSpec", True)


async def test_suspending_and_resuming_reach_the_job(world: World) -> None:
    await world.apply()
    await world.run()
    await world.apply(suspend=True)
    await world.run()
    assert (await world.job())["spec"]["suspend"] is True
    assert (await world.training()).status.phase is JobPhase.SUSPENDED
    await world.apply()
    await world.run()
    assert (await world.job())["spec"]["suspend"] is False


async def test_other_workers_while_suspended_make_another_job(world: World) -> None:
    await world.apply(suspend=True)
    await world.run()
    await world.apply(suspend=True, workers=3)
    await world.run(2)
    assert (await world.job())["spec"]["completions"] == 3


async def test_success_is_shown_and_told(world: World) -> None:
    await world.apply()
    await world.run()
    await world.end_job("Complete")
    await world.run()
    assert (await world.training()).status.phase is JobPhase.SUCCEEDED
    assert "Succeeded" in world.events.seen


async def test_a_finished_one_is_deleted_when_its_time_is_over(world: World) -> None:
    await world.apply(ttlSecondsAfterFinished=60)
    await world.run()
    await world.end_job("Complete")
    world.now = 1_800_000_000.0  # 2027-01-15T08:00:00Z, the completion time
    assert await world.run() == 60.0
    world.now += 61
    await world.run()
    with pytest.raises(NotFound):
        await world.training()


@pytest.mark.expected_logs("trying again")
async def test_one_that_fails_does_not_keep_the_others_from_their_turn(world: World) -> None:
    await world.apply()
    other = training_job().wire()
    other["metadata"] = {"name": "aaa", "namespace": "vision", "uid": "other-uid"}
    raw = await world.kube.apply(TRAINING_JOBS, other, field_manager="user")
    world.state.training_jobs.put("vision/aaa", TrainingJob.model_validate(raw))
    world.kube.fail_next("create", SERVICES, Unavailable(503, "ServiceUnavailable", "busy"))
    again = await world.run()
    assert len(world.kube.objects(JOBS)) == 1
    assert again is not None
    assert 0 < again <= 2.0


ODD_TEMPLATES = {
    "env that is a map": {"spec": {"containers": [{"name": "c", "image": "x", "env": {"A": "b"}}]}},
    "env of nothing": {"spec": {"containers": [{"name": "c", "image": "x", "env": [None]}]}},
    "env with a name that is a list": {"spec": {"containers": [{"name": "c", "env": [{"name": ["A"]}]}]}},
    "labels that are a list": {"metadata": {"labels": ["x"]}, "spec": {"containers": [{"name": "c"}]}},
    "annotations that are text": {"metadata": {"annotations": "x"}, "spec": {"containers": [{"name": "c"}]}},
    "init containers that are a map": {"spec": {"containers": [{"name": "c"}], "initContainers": {"a": 1}}},
    "an init container that is text": {"spec": {"containers": [{"name": "c"}], "initContainers": ["a"]}},
}


@pytest.mark.parametrize("template", ODD_TEMPLATES.values(), ids=ODD_TEMPLATES)
@pytest.mark.expected_logs("cannot start: spec.template")
async def test_a_template_of_another_shape_is_told_of(world: World, template: dict[str, Any]) -> None:
    await world.apply(template=template)
    await world.run()
    accepted = next(one for one in (await world.training()).status.conditions if one.type == "Accepted")
    assert (accepted.reason, "write for example" in accepted.message or "begin each" in accepted.message) == (
        "InvalidSpec",
        True,
    )


@pytest.mark.expected_logs("cannot start: spec.template has more than 50 levels")
async def test_a_template_nested_without_end_is_told_of(world: World) -> None:
    nested: Any = 1
    for _ in range(4000):
        nested = [nested]
    await world.apply()
    known = await world.training()
    spec = known.spec.template.spec.model_copy(update={"containers": ({"name": "c", "image": "x", "odd": nested},)})
    template = known.spec.template.model_copy(update={"spec": spec})
    deep = known.model_copy(update={"spec": known.spec.model_copy(update={"template": template})})
    world.state.training_jobs.put("vision/ddp", deep)
    await world.run()
    assert await world.reason(ConditionType.ACCEPTED) == "InvalidSpec"


async def test_a_job_goes_on_when_its_template_is_spoilt(world: World) -> None:
    await world.apply()
    await world.run()
    await world.apply(template=ODD_TEMPLATES["env that is a map"], suspend=True)
    await world.run(passes=2)
    assert (await world.job())["spec"]["suspend"] is True


@pytest.mark.expected_logs("too deep")
async def test_any_trouble_of_one_becomes_its_condition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(_: TrainingJob) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("stoker_operator.reconcilers.job_children.make_service", odd)
    await world.apply()
    await world.run()
    assert await world.reason(ConditionType.ACCEPTED) == "InternalError"


async def test_one_that_does_not_parse_says_so_and_keeps_its_job(world: World) -> None:
    await world.apply()
    await world.run()
    raw = await world.kube.patch(TRAINING_JOBS, "ddp", {"spec": {"workers": 5_000_000}}, "vision")
    world.state.training_jobs.put("vision/ddp", parse_training_job(raw))
    await world.run()
    written = await world.kube.get(TRAINING_JOBS, "ddp", "vision")
    accepted = next(one for one in written["status"]["conditions"] if one["type"] == "Accepted")
    assert (accepted["reason"], "spec.workers: " in accepted["message"]) == ("InvalidSpec", True)
    assert (await world.job())["spec"]["completions"] == 2


@pytest.mark.expected_logs("quiet hours")
async def test_a_write_that_is_refused_is_a_condition_until_it_is_taken(world: World) -> None:
    await world.apply()
    await world.run()
    await world.apply(suspend=True)
    world.kube.fail_next("patch", JOBS, Forbidden(403, "Forbidden", "a policy denied the request: quiet hours"))
    await world.run()
    assert await world.reason(ConditionType.RECONCILED) == "WriteFailed"
    world.now += 10
    await world.run(2)
    assert (await world.job())["spec"]["suspend"] is True
    assert ConditionType.RECONCILED not in {one.type for one in (await world.training()).status.conditions}


async def annotated(world: World) -> str:
    annotations = (await world.job())["spec"]["template"]["metadata"]["annotations"]
    return str(annotations[names.ANNOTATION_DATASETS])


async def test_the_workers_of_a_job_keep_the_version_that_was_current_when_it_was_made(world: World) -> None:
    await world.apply()
    await world.run()
    world.state.datasets.put("vision/imagenet", listed(dataset(), "e" * 64))
    await world.run(2)
    assert [row.version for row in (await world.training()).status.datasets] == [VERSION]
    assert await annotated(world) == f"vision/imagenet@{VERSION}:/data"


async def test_a_job_waits_for_the_first_listing(world: World) -> None:
    world.state.datasets.put("vision/imagenet", dataset(listed=False))
    await world.apply()
    await world.run()
    assert await world.reason(ConditionType.DATA_READY) == "Listing"
    assert world.kube.objects(JOBS) == []
    world.state.datasets.put("vision/imagenet", dataset())
    await world.run()
    assert await annotated(world) == f"vision/imagenet@{VERSION}:/data"


async def test_a_job_that_was_made_before_versions_were_settled_stays_as_it_is(world: World) -> None:
    await world.apply()
    training = await world.training()
    job = await world.kube.create(JOBS, make_job(training), "vision")
    world.state.jobs.put("vision/ddp", job)
    await world.run(2)
    assert (await world.job())["metadata"]["uid"] == job["metadata"]["uid"]
    assert (await world.training()).status.datasets == ()


async def test_nodes_are_waited_for_after_the_end_and_then_its_goodput_is_told(world: World) -> None:
    await world.apply()
    await world.run()
    owner = Owner("Job", "ddp", (await world.job())["metadata"]["uid"])
    for index in (0, 1):
        pod = released(index, phase="Succeeded", uid=f"{index:08x}-0000", owner=owner)
        world.state.pods.put(pod.key, pod)
    told = EndedPod(pod="vision/ddp-0", uid="00000000-0000", watched_seconds=100.0, stalled_seconds=5.0)
    cache = {"metadata": {"name": "a", "uid": "a"}, "status": {"ended": [told.wire()]}}
    world.state.node_caches.put("a", NodeCache.model_validate(cache))
    await world.end_job("Complete")
    world.now += 1.0
    assert await world.run() == pytest.approx(GRACE - 1.0)
    assert "Goodput" not in world.events.seen
    world.now += GRACE
    assert await world.run(2) is None
    assert world.events.seen.count("Goodput") == 1
    known = (await world.training()).status.goodput
    assert known is not None
    assert (known.complete, known.pods, known.missed, known.stall_share) == (True, 1, 1, 0.05)
