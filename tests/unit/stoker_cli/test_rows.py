"""Table rows and sentences about Datasets, nodes and pods."""

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_cli import rows
from tests.unit.stoker_cli.builders import condition, node_cache


def dataset(**status: object) -> Dataset:
    return Dataset.model_validate(
        {
            "metadata": {"name": "d", "namespace": "n", "generation": 2},
            "spec": {"source": {"uri": "s3://bucket/"}},
            "status": {"observedGeneration": 2, **status},
        }
    )


def test_progress_counts_only_wanted_nodes() -> None:
    nodes = [{"name": "a", "warmBytes": 100}, {"name": "no-longer-wanted", "warmBytes": 90}]
    assert rows.progress(dataset(bytes=100, cachedBytes=100, wantedBytes=200, nodes=nodes)).share == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("figures", "came"),
    [
        ({"warmBytes": 2048, "sourceBytes": 1024, "peerBytes": 1024}, "1.0 KiB source, 1.0 KiB peers"),
        ({"warmBytes": 2048}, "already on disk"),  # as after a restart of the sidecar
        ({}, "-"),
    ],
)
def test_a_node_shows_where_its_bytes_came_from(figures: dict[str, int], came: str) -> None:
    held = NodeDatasetStatus.model_validate({"namespace": "n", "name": "d", "uid": "u", "bytes": 2048} | figures)
    assert rows.held_row(held)[-1] == came


def test_unknown_sizes_are_no_progress() -> None:
    assert rows.progress(dataset()).share == 0


@pytest.mark.parametrize(("phase", "settled"), [(p, p in rows.SETTLED) for p in Phase])
def test_a_dataset_is_settled_if_no_change_is_expected(phase: Phase, settled: bool) -> None:
    assert rows.settled(dataset(phase=phase)) is settled


def test_a_status_of_an_older_spec_is_not_settled() -> None:
    assert not rows.settled(dataset(phase="Ready", observedGeneration=1))


def test_the_most_important_condition_is_the_message() -> None:
    conditions = [condition("Ready", "False", "later"), condition("Listed", "False", "no such bucket")]
    assert rows.message(dataset(conditions=conditions)) == "no such bucket"


def test_a_dataset_without_status_hints_at_the_operator() -> None:
    assert "Check that the operator runs" in rows.message(dataset())


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


def test_a_dataset_shows_its_class_and_limits() -> None:
    limits = [condition("Limited", "True", "warm.priority 7 is changed to 0")]
    assert rows.class_lines(dataset(**QUOTA, chargedBytes=10 << 30, conditions=limits)) == [
        "class tenants: uses 10.0 GiB of the namespace's 100.0 GiB over all nodes and 20.0 GiB on each node",
        "warm.priority 7 is changed to 0",
    ]
    assert rows.class_lines(dataset(className="free")) == ["class free"]
    assert rows.class_lines(dataset(conditions=[condition("Limited", "False", "all")])) == []


def test_unconfined_nodes_are_listed_with_the_reason() -> None:
    said = {"a": "Landlock, version 7", "b": "None: this kernel has no Landlock", "c": ""}
    caches = [node_cache(name, confinement=text) for name, text in said.items()]
    assert rows.unconfined(caches) == ["b: processes are not confined: this kernel has no Landlock"]


def test_objects_that_a_nodecache_omits_are_counted() -> None:
    status = {"datasetCount": 1003, "mountCount": 502, "workloadCount": 12, "endedLeftOut": 7}
    caches = [node_cache(name, **one) for name, one in (("a", status), ("b", {}))]
    assert [rows.node_row(caches[0])[at] for at in (2, 7)] == ["1003", "502"]
    assert rows.left_out(caches) == [
        "a: 0 of 1,003 Datasets shown, 0 of 502 volumes shown, "
        "0 of 12 active pods shown, 7 pods that ended in the last hour omitted"
    ]


def test_without_counts_the_rows_are_counted() -> None:
    row = {"namespace": "n", "name": "d", "uid": "u"}
    old = node_cache("a", datasets=[row])
    assert rows.node_row(old)[2] == "1"


def test_a_workload_is_a_row_with_dashes_for_unknown_values() -> None:
    known = NodeWorkload(
        pod="vision/run-0",
        phase="Training",
        epoch=3,
        epochs=90,
        items_per_second=5120.0,
        stall_percent=4,
        mean_loss="0.7",
    )
    assert rows.workload_row(known) == ("vision/run-0", "Training", "4/90", "5,120", "4%", "-", "0.7", "report")
    assert set(rows.workload_row(NodeWorkload(pod="p"))[1:-1]) == {rows.UNKNOWN}


def observed(**fields: object) -> NodeWorkload:
    base = {"pod": "vision/run-0", "source": "fanotify", "observed_by": "fanotify", "sampled": 0.31}
    known = {"phase": "Training", "confidence": 0.9, "epoch": 3, "epoch_progress": 0.52, "epoch_error": 0.04}
    return NodeWorkload.model_validate(base | known | fields)


def test_observed_values_have_a_confidence() -> None:
    phase, epoch, *_, source = rows.workload_row(observed())[1:]
    assert (phase, epoch, source) == ("Training (90% sure)", "4, ~52%", "fanotify (31% seen)")


@pytest.mark.parametrize(("fresh", "shown"), [(True, "4, 52±4%"), (False, "4, ~52%")])
def test_only_fresh_figures_show_the_error_of_the_progress(fresh: bool, shown: str) -> None:
    assert rows.epoch_words(observed(), fresh=fresh) == shown


def test_a_stall_is_shown_with_its_source() -> None:
    assert rows.workload_row(observed(stall_percent=12, stall_source="consumer"))[4] == "12% (consumer)"


def test_a_pod_that_reports_and_is_observed_has_both_sources() -> None:
    assert rows.workload_row(observed(source="report", sampled=1.0))[-1] == "report, fanotify"


def test_the_pods_of_a_dataset_mount_it() -> None:
    mounted, other = observed(datasets=["n/d"]), observed(datasets=["n/other"])
    status = {"workloads": [mounted.wire(), other.wire()]}
    cache = node_cache("node-1", **status)
    assert rows.readers([cache], dataset()) == [("node-1", mounted)]


def test_a_forecast_comes_from_the_status_or_has_a_reason() -> None:
    forecast = {"originBytes": 1, "message": "1 B from the source"}
    version = "1" * 64

    assert rows.forecast(dataset(version=version, forecast=forecast)).endswith(": 1 B from the source.")
    assert rows.forecast(dataset(version=version)).endswith(": nothing is left to fetch.")
    assert "is not listed yet" in rows.forecast(dataset())


@pytest.mark.parametrize(("before", "what"), [("v1", "nothing changed"), ("v0", "new version"), ("", "new version")])
def test_a_refresh_reports_changes(before: str, what: str) -> None:
    one = dataset(version="v1", versionShort="v1", conditions=[condition("Listed", "True", "3 files, 9 B")])
    assert rows.what_changed(before, one).endswith(f": {what}, version v1: 3 files, 9 B.")


@pytest.mark.parametrize("state", ["Full", "Paused"])
def test_a_state_is_shown_in_place_of_the_phase_and_is_settled(state: str) -> None:
    one = dataset(phase=Phase.WARMING, state=state)
    assert (rows.dataset_row(one)[2], rows.settled(one)) == (state, True)
