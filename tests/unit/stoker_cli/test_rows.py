"""What a table says of a Dataset."""

import pytest

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import Phase
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache
from stoker_cli import rows


def dataset(**status: object) -> Dataset:
    return Dataset.model_validate(
        {
            "metadata": {"name": "d", "namespace": "n", "generation": 2},
            "spec": {"source": {"uri": "s3://bucket/"}},
            "status": {"observedGeneration": 2, **status},
        }
    )


def condition(kind: str, status: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": "R",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_progress_counts_wanted_nodes_alone() -> None:
    nodes = [{"name": "a", "warmBytes": 100}, {"name": "no-longer-wanted", "warmBytes": 90}]
    assert rows.progress(dataset(bytes=100, cachedBytes=100, wantedBytes=200, nodes=nodes)).share == pytest.approx(0.5)


def test_nothing_known_is_no_progress() -> None:
    assert rows.progress(dataset()).share == 0


@pytest.mark.parametrize(("phase", "settled"), [(p, p in rows.SETTLED) for p in Phase])
def test_a_dataset_is_settled_when_nothing_more_happens_by_itself(phase: Phase, settled: bool) -> None:
    assert rows.settled(dataset(phase=phase)) is settled


def test_a_status_of_an_older_spec_is_not_settled() -> None:
    assert not rows.settled(dataset(phase="Ready", observedGeneration=1))


def test_the_condition_that_hurts_is_the_message() -> None:
    conditions = [condition("Ready", "False", "later"), condition("Listed", "False", "no such bucket")]
    assert rows.message(dataset(conditions=conditions)) == "no such bucket"


def test_a_dataset_that_no_one_looked_at_hints_at_the_operator() -> None:
    assert "is it running?" in rows.message(dataset())


def test_a_line_of_progress_has_share_bytes_speed_and_eta() -> None:
    moving = dataset(phase="Warming", cachedBytes=512, wantedBytes=1024, bytesPerSecond=256, eta="2s")
    assert rows.progress_line(moving) == "n/d: Warming, 50 % (512 B of 1.0 KiB), 256 B/s, ETA 2s"


def test_a_line_without_bytes_says_why() -> None:
    waiting = dataset(phase="Failed", conditions=[condition("Listed", "False", "no such bucket")])
    assert rows.progress_line(waiting) == "n/d: Failed. no such bucket"


QUOTA = {"className": "tenants", "namespaceQuotaBytes": 100 << 30, "nodeQuotaBytes": 20 << 30}


def test_a_class_is_a_column_and_its_quota_is_added_up() -> None:
    two = [dataset(**QUOTA, chargedBytes=one << 30) for one in (30, 10)]
    assert [rows.dataset_row(one)[-1] for one in (two[0], dataset())] == ["tenants", "-"]
    assert rows.quota_lines([*two, dataset(className="free")]) == [
        "namespace n, class tenants: 40.0 GiB of 100.0 GiB over all nodes and 20.0 GiB on each node"
    ]


def test_one_dataset_says_its_class_and_what_it_is_given_less_of() -> None:
    limits = [condition("Limited", "True", "warm.priority 7 is taken as 0")]
    assert rows.class_lines(dataset(**QUOTA, chargedBytes=10 << 30, conditions=limits)) == [
        "class tenants: takes 10.0 GiB of its namespace's 100.0 GiB over all nodes and 20.0 GiB on each node",
        "warm.priority 7 is taken as 0",
    ]
    assert rows.class_lines(dataset(className="free")) == ["class free"]
    assert rows.class_lines(dataset(conditions=[condition("Limited", "False", "all")])) == []


def test_nodes_whose_processes_nothing_holds_to_their_files_are_named_with_why() -> None:
    said = {"a": "Landlock, version 7", "b": "None: this kernel has no Landlock", "c": ""}
    caches = [
        NodeCache.model_validate({"metadata": {"name": name}, "status": {"confinement": text}})
        for name, text in said.items()
    ]
    assert rows.unconfined(caches) == ["b: processes are not confined: this kernel has no Landlock"]


def test_a_node_is_counted_with_what_its_node_cache_does_not_name() -> None:
    status = {"datasetCount": 1003, "mountCount": 502, "workloadCount": 12, "endedLeftOut": 7}
    caches = [
        NodeCache.model_validate({"metadata": {"name": name}, "status": one})
        for name, one in (("a", status), ("b", {}))
    ]
    assert [rows.node_row(caches[0])[at] for at in (2, 7)] == ["1003", "502"]
    assert rows.left_out(caches) == [
        "a: 0 of 1,003 Datasets are named, 0 of 502 volumes are named, "
        "0 of 12 pods that do something with them are named, 7 pods that ended were left out within their hour"
    ]


def test_a_sidecar_that_counts_nothing_is_counted_by_its_rows() -> None:
    row = {"namespace": "n", "name": "d", "uid": "u"}
    old = NodeCache.model_validate({"metadata": {"name": "a"}, "status": {"datasets": [row]}})
    assert rows.node_row(old)[2] == "1"


def test_what_a_pod_does_is_a_row_and_what_is_not_known_a_dash() -> None:
    known = NodeWorkload(
        pod="vision/run-0",
        phase="Training",
        epoch=3,
        epochs=90,
        items_per_second=5120.0,
        stall_percent=4,
        mean_loss="0.7",
    )
    assert rows.workload_row(known) == ("vision/run-0", "Training", "3/90", "5,120", "4%", "-", "0.7", "report")
    assert set(rows.workload_row(NodeWorkload(pod="p"))[1:-1]) == {rows.UNKNOWN}


def observed(**fields: object) -> NodeWorkload:
    base = {"pod": "vision/run-0", "source": "fanotify", "observed_by": "fanotify", "sampled": 0.31}
    known = {"phase": "Training", "confidence": 0.9, "epoch": 3, "epoch_progress": 0.52, "epoch_error": 0.04}
    return NodeWorkload.model_validate(base | known | fields)


def test_what_is_told_by_reads_says_how_sure_it_is() -> None:
    phase, epoch, *_, source = rows.workload_row(observed())[1:]
    assert (phase, epoch, source) == ("Training (90% sure)", "3, 52±4%", "fanotify (31% seen)")


def test_a_stall_is_shown_with_what_counted_it() -> None:
    assert rows.workload_row(observed(stall_percent=12, stall_source="consumer"))[4] == "12% (consumer)"


def test_a_pod_that_reports_and_is_observed_has_both_sources() -> None:
    assert rows.workload_row(observed(source="report", sampled=1.0))[-1] == "report, fanotify"


def test_the_pods_of_a_dataset_are_those_that_have_it_mounted() -> None:
    mounted, other = observed(datasets=["n/d"]), observed(datasets=["n/other"])
    status = {"workloads": [mounted.wire(), other.wire()]}
    cache = NodeCache.model_validate({"metadata": {"name": "node-1"}, "status": status})
    assert rows.readers([cache], dataset()) == [("node-1", mounted)]


def test_a_forecast_is_the_operators_word_or_why_there_is_none() -> None:
    forecast = {"originBytes": 1, "message": "1 B from the source"}
    version = "1" * 64

    assert rows.forecast(dataset(version=version, forecast=forecast)).endswith(": 1 B from the source.")
    assert rows.forecast(dataset(version=version)).endswith(": nothing is left to fetch.")
    assert "is not listed yet" in rows.forecast(dataset())
