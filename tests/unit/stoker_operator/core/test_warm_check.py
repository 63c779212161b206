"""Answers of the check "data is warm" to a Workload: when it may start, and when its quota is returned."""

from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import WarmForecast
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.gating.releases import SHOWN_AFTER
from stoker_operator.core.kueue.check_answers import HOLD, CheckAnswer, active_condition, decide_answer, status_patch
from stoker_operator.core.kueue.kueue_objects import CheckState, WarmTerms, parse_admission_check, parse_workload
from stoker_operator.core.kueue.warm_check import Outlook, StartVerdict, judge
from stoker_operator.core.kueue.warm_supply import WarmSupply
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.resources import Resources
from tests.support.cases import cases
from tests.support.present import present
from tests.unit.stoker_operator.builders import NOW, SIZE, listed, make_dataset, make_holder, make_node
from tests.unit.stoker_operator.builders import make_view as view_of
from tests.unit.stoker_operator.kueue import ROOM, held_back, make_check, make_workload, noted_wait, pod_set

REQUIRE = {"scheduling": {"mode": "Require"}}
RESERVED = {"QuotaReserved": "True"}
WAITED = "stoker.dev/waited"


def imagenet(**spec: Any) -> Dataset:
    base = listed(make_dataset("imagenet"))
    return Dataset.model_validate(base.wire() | {"spec": base.spec.wire() | spec})


def cluster(*warm: int, dataset: Dataset | None = None, **row: Any) -> ClusterView:
    """Make a cluster with one node per amount of warm bytes. -1: the Dataset is not in the node's plan."""
    one = dataset or imagenet()
    nodes = [make_node(f"node-{at}", allocatable=ROOM) for at in range(len(warm))]
    held = {f"node-{at}": amount for at, amount in enumerate(warm) if amount >= 0}
    caches = [make_holder(name, one, amount, **row) for name, amount in held.items()]
    return view_of(one, *nodes, *caches)


def judged(raw: dict[str, Any], view: ClusterView, within: float = 0.0, now: float = NOW) -> StartVerdict:
    supply = WarmSupply(view, WarmthIndex(view.node_caches))
    return judge(parse_workload(raw), WarmTerms(within), view, supply, now)


def answer(raw: dict[str, Any], verdict: StartVerdict, now: float = NOW) -> CheckAnswer | None:
    workload = parse_workload(raw)
    return decide_answer(workload, workload.checks[0], verdict, now)


def answered(raw: dict[str, Any], verdict: StartVerdict) -> CheckAnswer:
    return present(answer(raw, verdict))


def updates(raw: dict[str, Any], warm: int = SIZE) -> list[dict[str, Any]]:
    """Return the podSetUpdates of the check, with ``warm`` bytes on the only node."""
    return [dict(one) for one in answered(raw, judged(raw, cluster(warm))).updates]


def by_claim() -> dict[str, Any]:
    """Make pods that mount imagenet by their own claim."""
    pods = pod_set(datasets="")
    pods["template"]["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "imagenet"}}]
    return pods


READY, WAIT = StartVerdict(Outlook.READY, "warm: it"), StartVerdict(Outlook.WAIT, "waiting for it")
PART = {"admission": {"podSetAssignments": [{"name": "main", "count": 1}]}}


class TestOutlook:
    def test_warm_data_lets_it_go(self) -> None:
        verdict = judged(make_workload(), cluster(-1, SIZE))
        assert (verdict.outlook, verdict.sentence) == (Outlook.READY, "warm: vision/imagenet; on node-1")

    def test_cold_data_holds_it_with_a_forecast(self) -> None:
        verdict = judged(make_workload(), cluster(400, eta_seconds=90))
        assert verdict.outlook is Outlook.WAIT
        assert "0 of 1 nodes that its pods need are warm; 600 B left, 1m30s at the current rate" in verdict.sentence

    def test_a_forecast_within_the_time_that_the_check_names_lets_it_go(self) -> None:
        view = cluster(400, eta_seconds=90)
        assert judged(make_workload(), view, within=90.0).outlook is Outlook.READY
        assert judged(make_workload(), view, within=89.0).outlook is Outlook.WAIT

    def test_without_a_rate_nothing_is_foreseen(self) -> None:
        verdict = judged(make_workload(), cluster(400), within=3600.0)
        assert (verdict.outlook, "the time is not known yet" in verdict.sentence) == (Outlook.WAIT, True)

    @cases("seconds, said", (2000, "about 33m20s by the forecast"), (None, "the time is not known yet"))
    def test_while_nothing_moves_the_forecast_of_the_dataset_is_told(self, seconds: int | None, said: str) -> None:
        one = imagenet()
        forecast = WarmForecast(seconds=seconds, message="so much")
        foreseen = one.model_copy(update={"status": one.status.model_copy(update={"forecast": forecast})})
        verdict = judged(make_workload(), cluster(10, dataset=foreseen), within=3600)
        assert verdict.outlook is Outlook.WAIT
        assert f"left, {said}; " in verdict.sentence

    @pytest.mark.parametrize(("cost", "said"), [("1.08 USD", " for about 1.08 USD"), ("", "")])
    def test_what_the_source_is_to_send_is_told_with_its_price(self, cost: str, said: str) -> None:
        one = imagenet()
        forecast = WarmForecast(origin_bytes=300, cost=cost, seconds=60)
        foreseen = one.model_copy(update={"status": one.status.model_copy(update={"forecast": forecast})})
        verdict = judged(make_workload(), cluster(10, dataset=foreseen))
        assert f"left, 300 B of it from the source{said}, about 1m by the forecast; " in verdict.sentence

    @cases(
        "pods, warm, outlook",
        two_nodes_for_two_large_pods=([pod_set(count=2, cpu="3")], (SIZE, 10), Outlook.WAIT),
        both_of_two_nodes=([pod_set(count=2, cpu="3")], (SIZE, SIZE), Outlook.READY),
        one_node_for_two_small_pods=([pod_set(count=2, cpu="2")], (SIZE, 10), Outlook.READY),
        two_nodes_for_kinds_that_share_room=(
            [pod_set("master", 1, "3"), pod_set("worker", 1, "3")],
            (SIZE, 10),
            Outlook.WAIT,
        ),
        none_without_a_dataset=([pod_set(datasets="")], (10,), Outlook.READY),
        none_for_pods_that_are_never_held=([pod_set(scheduling="None")], (10,), Outlook.READY),
    )
    def test_as_many_nodes_must_be_warm_as_the_pods_need(
        self, pods: list[dict[str, Any]], warm: tuple[int, ...], outlook: Outlook
    ) -> None:
        assert judged(make_workload(*pods), cluster(*warm)).outlook is outlook

    def test_of_a_job_that_kueue_admits_in_part_as_many_nodes_as_that_needs(self) -> None:
        wide = make_workload(pod_set(count=2, cpu="3"), status=PART)
        assert judged(wide, cluster(SIZE, 10)).outlook is Outlook.READY

    def test_a_million_pods_cost_no_more_than_the_nodes_that_they_need(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked, covers = list[Resources](), Resources.covers

        def counted(free: Resources, request: Resources) -> bool:
            asked.append(request)
            return covers(free, request)

        monkeypatch.setattr(Resources, "covers", counted)
        huge = judged(make_workload(pod_set(count=10**6, cpu="0")), cluster(10, 10))
        assert "0 of 2 nodes" in huge.sentence
        assert len(asked) < 10

    def test_a_node_that_the_pods_may_not_run_on_does_not_count(self) -> None:
        picky = pod_set()
        picky["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
        assert judged(make_workload(picky), cluster(SIZE)).outlook is Outlook.WAIT

    def test_after_max_wait_it_goes_unless_it_requires_warm_nodes(self) -> None:
        late = NOW + 601
        assert judged(make_workload(), cluster(10), now=late).outlook is Outlook.READY
        assert judged(make_workload(pod_set(scheduling="Require")), cluster(10), now=late).outlook is Outlook.WAIT

    def test_it_does_not_wait_for_data_that_nothing_warms(self) -> None:
        manual = cluster(10, dataset=imagenet(warm={"policy": "Manual"}))
        verdict = judged(make_workload(), manual)
        assert (verdict.outlook, verdict.cold) == (Outlook.READY, True)
        assert "nothing is fetched until `stoker -n vision warm imagenet`" in verdict.sentence
        assert judged(make_workload(pod_set(scheduling="Require")), manual).outlook is Outlook.WAIT

    def test_pods_that_fit_no_node_go_so_that_an_autoscaler_sees_them(self) -> None:
        large = make_workload(pod_set(cpu="64"))
        assert judged(large, cluster(SIZE)).outlook is Outlook.WAIT
        assert judged(large, cluster(SIZE), now=NOW + SHOWN_AFTER).outlook is Outlook.READY

    @cases(
        "pods, outlook, words",
        a_wrong_annotation_is_refused=(pod_set(datasets="imagenet:data"), Outlook.REFUSED, "absolute path"),
        a_gang_of_no_size_is_refused=(
            pod_set(gang_size="four"),
            Outlook.REFUSED,
            "pods 'main': the annotation stoker.dev/gang-size is 'four'",
        ),
        a_missing_dataset_is_waited_for=(
            pod_set(datasets="missing:/data"),
            Outlook.WAIT,
            "vision/missing does not exist",
        ),
    )
    def test_what_is_wrong_with_pods_is_told(self, pods: dict[str, Any], outlook: Outlook, words: str) -> None:
        verdict = judged(make_workload(pods), cluster(SIZE))
        assert (verdict.outlook, words in verdict.sentence) == (outlook, True)

    def test_a_version_that_is_named_is_the_one_that_must_be_warm(self) -> None:
        named = make_workload(pod_set(datasets=f"imagenet@{'2' * 12}:/data"))
        one = imagenet()
        older = one.model_copy(update={"status": one.status.model_copy(update={"versions_in_use": ("2" * 64,)})})
        verdict = judged(named, cluster(SIZE, dataset=older))
        assert verdict.outlook is Outlook.WAIT
        assert verdict.versions == {"vision/imagenet": {"node-0": frozenset({"2" * 64})}}


class TestWanted:
    def test_data_is_wanted_where_it_is_already(self) -> None:
        assert judged(make_workload(), cluster(-1, 10, -1)).wanted == {"vision/imagenet": frozenset({"node-1"})}

    def test_where_too_few_nodes_have_some_others_are_asked(self) -> None:
        wide = make_workload(pod_set(count=3, cpu="3"))
        assert judged(wide, cluster(-1, 10, -1)).wanted == {
            "vision/imagenet": frozenset({"node-0", "node-1", "node-2"})
        }

    def test_cold_datasets_do_not_all_begin_on_the_first_node(self) -> None:
        datasets = [listed(make_dataset(f"set-{at}")) for at in range(8)]
        view = view_of(*datasets, *(make_node(f"node-{at}", allocatable=ROOM) for at in range(8)))
        chosen = [judged(make_workload(pod_set(datasets=f"set-{at}:/data")), view).wanted for at in range(8)]
        assert len({node for wanted in chosen for nodes in wanted.values() for node in nodes}) > 3

    def test_a_node_more_moves_a_cold_dataset_by_one_node_at_most(self) -> None:
        workload, nodes = make_workload(), [make_node(f"node-{at}", allocatable=ROOM) for at in range(9)]
        (before,) = judged(workload, view_of(imagenet(), *nodes[:8])).wanted["vision/imagenet"]
        (after,) = judged(workload, view_of(imagenet(), *nodes)).wanted["vision/imagenet"]
        assert int(after[-1]) - int(before[-1]) in (0, 1)

    def test_a_node_that_the_dataset_leaves_out_is_not_asked(self) -> None:
        fussy = imagenet(cache={"nodeSelector": {"disk": "fast"}})
        verdict = judged(make_workload(), cluster(-1, dataset=fussy))
        assert verdict.wanted == {"vision/imagenet": frozenset()}
        assert "no ready node with Stoker's sidecar" in verdict.sentence


class TestAnswer:
    def test_with_quota_and_warm_data_it_is_ready(self) -> None:
        told = answered(make_workload(conditions=RESERVED), READY)
        assert (told.state, told.requeue_at) == (CheckState.READY, None)

    def test_with_quota_and_cold_data_the_quota_goes_back_and_it_is_left_alone(self) -> None:
        told = answered(make_workload(conditions=RESERVED), WAIT)
        assert (told.state, told.requeue_at) == (CheckState.RETRY, NOW + HOLD)

    def test_while_kueue_takes_the_quota_back_nothing_is_said(self) -> None:
        assert answer(make_workload(conditions={"QuotaReserved": "True", "Evicted": "True"}), WAIT) is None

    @pytest.mark.parametrize("verdict", [READY, WAIT], ids=["warm", "cold"])
    def test_without_quota_it_is_pending_whatever_is_warm(self, verdict: StartVerdict) -> None:
        told = answered(make_workload(), verdict)
        assert (told.state, told.urgent) == (CheckState.PENDING, False)

    def test_once_the_data_is_warm_it_is_queued_at_once(self) -> None:
        told = answered(make_workload(**held_back(NOW + 200)), READY)
        assert (told.requeue_at, told.urgent) == (NOW, True)

    def test_while_the_data_is_cold_the_time_is_put_off_before_it_has_come(self) -> None:
        near = answered(make_workload(**held_back(NOW + HOLD / 2 - 1)), WAIT)
        assert (near.requeue_at, near.urgent) == (NOW + HOLD, True)
        assert not answered(make_workload(**held_back(NOW + HOLD - 1)), WAIT).urgent

    def test_what_another_controller_holds_back_stays_held_back(self) -> None:
        assert answered(make_workload(**held_back(NOW + 200, ours=False)), READY).requeue_at is None

    def test_the_same_is_not_said_twice(self) -> None:
        assert answer(make_workload(message=WAIT.sentence), WAIT) is None
        assert answer(make_workload(conditions=RESERVED, state="Ready", message="warm: before"), READY) is None

    def test_what_the_webhook_would_refuse_is_rejected(self) -> None:
        told = answered(make_workload(conditions=RESERVED), StartVerdict(Outlook.REFUSED, "wrong"))
        assert told.state is CheckState.REJECTED


class TestPatch:
    def test_pods_that_mount_by_volumes_of_their_own_get_the_gate(self) -> None:
        named = {"name": "main", "annotations": {"stoker.dev/datasets": "vision/imagenet"}}
        assert updates(make_workload(by_claim(), conditions=RESERVED)) == [named]

    @cases(
        "raw, warm, since",
        of_those_that_start_cold_after_max_wait=(
            make_workload(pod_set(), pod_set("idle", datasets=""), age=601, conditions=RESERVED),
            10,
            "07:49:59",
        ),
        once_the_data_of_a_job_that_was_sent_back_came=(
            make_workload(age=500, **held_back(NOW + 200)),
            SIZE,
            "07:59:00",
        ),
        no_longer_than_the_job_exists=(make_workload(age=300, **noted_wait(NOW - 4000, NOW - 200)), SIZE, "07:55:00"),
        until_the_data_of_a_job_that_was_sent_back_was_there=(
            make_workload(age=500, **noted_wait(NOW - 500, NOW - 200)),
            SIZE,
            "07:55:00",
        ),
    )
    def test_pods_say_how_long_they_waited(self, raw: dict[str, Any], warm: int, since: str) -> None:
        waited = f"2027-01-15T{since}Z/2027-01-15T08:00:00Z"
        assert updates(raw, warm) == [{"name": "main", "annotations": {WAITED: waited}}]

    @cases(
        "raw",
        that_say_what_they_mount=make_workload(conditions=RESERVED),
        of_a_job_that_others_hold_back=make_workload(age=500, **held_back(NOW + 200, ours=False)),
        of_a_job_that_only_waited_for_its_turn=make_workload(age=500, conditions=RESERVED),
        whose_template_says_how_long_it_waited=make_workload(
            pod_set(waited="long"), age=500, **noted_wait(NOW - 500, NOW - 200)
        ),
    )
    def test_pods_are_left_as_they_are(self, raw: dict[str, Any]) -> None:
        assert not updates(raw)

    def test_a_note_stays_while_it_waits_for_its_turn(self) -> None:
        raw = make_workload(age=500, **noted_wait(NOW - 400, NOW - 200))
        raw["status"]["conditions"] = []
        assert updates(raw) == raw["status"]["admissionChecks"][0]["podSetUpdates"]

    @pytest.mark.parametrize("note", [{}, {"annotations": None}, {"annotations": {WAITED: "long/long"}}])
    def test_a_note_that_says_nothing_takes_nothing_of_its_max_wait(self, note: dict[str, Any]) -> None:
        raw = make_workload(age=500, **noted_wait(NOW - 400, NOW - 200))
        raw["status"]["admissionChecks"][0]["podSetUpdates"] = [{"name": "main"} | note]
        assert not updates(raw)

    @pytest.mark.parametrize("reserved", [True, False])
    def test_a_note_of_an_earlier_time_says_nothing(self, reserved: bool) -> None:
        raw = make_workload(age=500, **noted_wait(NOW - 400, NOW - 200))
        raw["status"]["admissionChecks"][0]["lastTransitionTime"] = "2027-01-15T07:58:00Z"
        raw["status"]["conditions"] = raw["status"]["conditions"] if reserved else []
        assert not updates(raw)

    def test_pods_that_are_never_held_are_told_nothing(self) -> None:
        pods = (pod_set(), pod_set("free", scheduling="None"))
        raw = make_workload(*pods, age=500, **noted_wait(NOW - 500, NOW - 200))
        assert [row["name"] for row in updates(raw)] == ["main"]

    def test_pods_that_mount_by_volumes_of_their_own_are_told_both(self) -> None:
        (row,) = updates(make_workload(by_claim(), age=601, conditions=RESERVED), 10)
        assert sorted(row["annotations"]) == ["stoker.dev/datasets", WAITED]

    def test_it_is_written_only_onto_what_was_decided_on(self) -> None:
        workload = parse_workload(make_workload(conditions=RESERVED))
        told = present(decide_answer(workload, workload.checks[0], WAIT, NOW))
        body = status_patch(workload, [told], workload.checks, NOW)
        assert body["metadata"]["resourceVersion"] == "7"
        assert body["status"]["requeueState"] == {"requeueAt": "2027-01-15T08:05:00Z"}
        (row,) = body["status"]["admissionChecks"]
        assert row == {
            "name": "data-warm",
            "state": "Retry",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
            "message": "waiting for it",
        }

    def test_the_time_of_the_last_change_stays_while_only_the_message_changes(self) -> None:
        workload = parse_workload(make_workload())
        told = present(decide_answer(workload, workload.checks[0], WAIT, NOW))
        (row,) = status_patch(workload, [told], workload.checks, NOW)["status"]["admissionChecks"]
        assert row["lastTransitionTime"] == "2027-01-15T07:59:00Z"


class TestActive:
    def test_a_good_check_is_active(self) -> None:
        check = present(parse_admission_check(make_check()))
        condition = present(active_condition(check, NOW))
        assert (condition["type"], condition["status"], condition["observedGeneration"]) == ("Active", "True", 1)

    def test_a_check_that_is_active_is_not_written_again(self) -> None:
        raw = make_check()
        first = present(parse_admission_check(raw))
        raw["status"] = {"conditions": [active_condition(first, NOW)]}
        again = present(parse_admission_check(raw))
        assert active_condition(again, NOW + 1) is None

    @pytest.mark.parametrize("text", ["soon", "-1s"])
    def test_a_wrong_check_says_why_it_is_not_active(self, text: str) -> None:
        check = present(parse_admission_check(make_check(warm_within=text)))
        condition = present(active_condition(check, NOW))
        assert condition["status"] == "False"
        assert text in condition["message"]
