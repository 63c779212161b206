"""The pass over TrainingJobs against the in-memory API server."""

import json
from typing import Any

import pytest
from prometheus_client import REGISTRY

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.goodput import EndedPod
from stoker_api.jobs.trainingjob import JobPhase, TrainingJob
from stoker_api.names import ConditionType
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.errors import Forbidden, Invalid, NotFound, Unavailable
from stoker_kube.resources import JOBS, PODS, SERVICES, TRAINING_JOBS
from stoker_operator.core.jobs.job_goodput import GRACE
from stoker_operator.core.jobs.jobs import make_job
from stoker_operator.core.plans.admission import parse_training_job
from stoker_operator.core.views.cluster import Owner, parse_pod
from stoker_operator.reconcilers.training_jobs import TrainingJobReconciler
from tests.support.present import present
from tests.unit.stoker_operator.builders import listed
from tests.unit.stoker_operator.clusters import VERSION, dataset, holding
from tests.unit.stoker_operator.operator_world import OperatorWorld
from tests.unit.stoker_operator.training import ended, released, training_job


class World(OperatorWorld):
    """An API server, its mirror, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.reconciler = TrainingJobReconciler(self.writer, self.state, self.events, self.clock)
        self.state.datasets.put("vision/imagenet", dataset())

    async def apply(self, **spec: Any) -> None:
        body = training_job(**spec).wire()
        del body["status"]
        raw = await self.kube.apply(TRAINING_JOBS, body, field_manager="user")
        self.state.training_jobs.put("vision/ddp", TrainingJob.model_validate(raw))

    async def start(self, **spec: Any) -> None:
        await self.apply(**spec)
        await self.run()

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
    await world.start()
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
    await world.start()
    before = len(world.kube.requests)
    await world.run()
    assert len(world.kube.requests) == before


async def test_without_its_dataset_it_waits_and_says_so(world: World) -> None:
    world.state.datasets.put("vision/imagenet", None)
    await world.start()
    assert (await world.training()).status.phase is JobPhase.WAITING_FOR_DATA
    assert await world.reason(ConditionType.DATA_READY) == "DatasetNotFound"
    assert world.kube.objects(JOBS) == []


async def test_it_starts_once_the_dataset_is_there(world: World) -> None:
    world.state.datasets.put("vision/imagenet", None)
    await world.start()
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
    await world.start()
    await world.kube.delete(JOBS, "ddp", "vision")
    world.now += 16
    await world.run()
    assert await world.reason(ConditionType.ACCEPTED) == "Accepted"


@pytest.mark.expected_logs("the API server refuses it")
async def test_the_api_servers_sentence_about_the_template_is_shown(world: World) -> None:
    world.kube.fail_next("create", JOBS, Invalid(422, "Invalid", "spec.template.spec.containers[0].image: Required"))
    await world.start()
    accepted = next(one for one in (await world.training()).status.conditions if one.type == "Accepted")
    assert (accepted.reason, "containers[0].image: Required" in accepted.message) == ("InvalidSpec", True)


async def test_suspending_and_resuming_reach_the_job(world: World) -> None:
    await world.start()
    await world.start(suspend=True)
    assert (await world.job())["spec"]["suspend"] is True
    assert (await world.training()).status.phase is JobPhase.SUSPENDED
    await world.start()
    assert (await world.job())["spec"]["suspend"] is False


async def test_other_workers_while_suspended_make_another_job(world: World) -> None:
    await world.start(suspend=True)
    await world.apply(suspend=True, workers=3)
    await world.run(2)
    assert (await world.job())["spec"]["completions"] == 3


async def test_success_is_shown_and_told(world: World) -> None:
    await world.start()
    await world.end_job("Complete")
    await world.run()
    assert (await world.training()).status.phase is JobPhase.SUCCEEDED
    assert "Succeeded" in world.events.reasons


async def test_its_status_is_byte_for_byte_the_same_an_hour_later(world: World) -> None:
    await world.apply()
    await world.run()
    await world.end_job("Complete")
    await world.run(passes=2)
    world.now += GRACE
    await world.run(passes=2)
    before = json.dumps((await world.training()).status.wire())
    world.state.node_caches.put("a", holding("a", 0.25))  # the data is gone, then the Job
    for gone in (False, True):
        world.now += 1800
        if gone:
            world.state.jobs.put("vision/ddp", None)
        await world.run(passes=2)
        assert json.dumps((await world.training()).status.wire()) == before


async def test_a_finished_one_is_deleted_when_its_time_is_over(world: World) -> None:
    await world.start(ttlSecondsAfterFinished=60)
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
    await world.start(template=template)
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
    await world.start()
    await world.apply(template=ODD_TEMPLATES["env that is a map"], suspend=True)
    await world.run(passes=2)
    assert (await world.job())["spec"]["suspend"] is True


@pytest.mark.expected_logs("too deep")
async def test_any_trouble_of_one_becomes_its_condition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(_: TrainingJob) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("stoker_operator.reconcilers.job_children.make_service", odd)
    await world.start()
    assert await world.reason(ConditionType.ACCEPTED) == "InternalError"


async def test_one_that_does_not_parse_says_so_and_keeps_its_job(world: World) -> None:
    await world.start()
    raw = await world.kube.patch(TRAINING_JOBS, "ddp", {"spec": {"workers": 5_000_000}}, "vision")
    world.state.training_jobs.put("vision/ddp", parse_training_job(raw))
    await world.run()
    written = await world.kube.get(TRAINING_JOBS, "ddp", "vision")
    accepted = next(one for one in written["status"]["conditions"] if one["type"] == "Accepted")
    assert (accepted["reason"], "spec.workers: " in accepted["message"]) == ("InvalidSpec", True)
    assert (await world.job())["spec"]["completions"] == 2


@pytest.mark.expected_logs("quiet hours")
async def test_a_write_that_is_refused_is_a_condition_until_it_is_taken(world: World) -> None:
    await world.start()
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
    await world.start()
    world.state.datasets.put("vision/imagenet", listed(dataset(), "e" * 64))
    await world.run(2)
    assert [row.version for row in (await world.training()).status.datasets] == [VERSION]
    assert await annotated(world) == f"vision/imagenet@{VERSION}:/data"


async def test_a_job_waits_for_the_first_listing(world: World) -> None:
    world.state.datasets.put("vision/imagenet", dataset(listed=False))
    await world.start()
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
    await world.start()
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
    assert "Goodput" not in world.events.reasons
    world.now += GRACE
    assert await world.run(2) is None
    assert world.events.reasons.count("Goodput") == 1
    known = present((await world.training()).status.goodput)
    assert (known.complete, known.pods, known.missed, known.stall_share) == (True, 1, 1, 0.05)


async def test_a_job_whose_workers_read_in_another_order_is_counted_once(world: World) -> None:
    before = REGISTRY.get_sample_value("stoker_wrong_orders_total") or 0.0
    await world.start()
    owner = Owner("Job", "ddp", (await world.job())["metadata"]["uid"])
    pod = released(0, uid="00000000-0000", owner=owner)
    world.state.pods.put(pod.key, pod)
    row = {"pod": "vision/ddp-0", "uid": pod.uid, "order": "Wrong"}
    cache = {"metadata": {"name": "a", "uid": "a"}, "status": {"workloads": [row]}}
    world.state.node_caches.put("a", NodeCache.model_validate(cache))
    await world.run(3)
    assert REGISTRY.get_sample_value("stoker_wrong_orders_total") == before + 1


async def test_a_worker_that_waits_is_let_go_when_the_mode_becomes_none(world: World) -> None:
    await world.start()
    template = (await world.job())["spec"]["template"]
    spec = template["spec"] | {"schedulingGates": [{"name": names.GATE_WARM}]}
    labels = template["metadata"]["labels"] | {names.LABEL_MANAGED: "true"}
    pod = await world.kube.create(
        PODS, {"metadata": template["metadata"] | {"name": "ddp-0", "labels": labels}, "spec": spec}, "vision"
    )
    world.state.pods.put("vision/ddp-0", parse_pod(pod))
    await world.start(scheduling={"mode": "None"})
    annotations = (await world.kube.get(PODS, "ddp-0", "vision"))["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_SCHEDULING] == "None"
