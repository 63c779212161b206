"""Versions other than the current one that nodes keep or fetch."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.cluster import PodView
from tests.unit.stoker_operator.builders import (
    NOW,
    V1,
    V2,
    decide_once,
    entry,
    given,
    listed,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    make_view,
    mount,
    report,
)
from tests.unit.stoker_operator.training import training_job


def test_versions_that_mounts_read_are_retained_on_their_node_only() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}), version=V2)
    used = make_holder("a", dataset, mounts=(mount(dataset, version=V1),))
    parts = dataset, make_node("a"), make_node("b"), used, make_holder("b", dataset)
    assert (entry("a", *parts).retain, entry("b", *parts).retain) == ((V1,), ())


def test_the_version_that_a_node_has_is_retained_until_it_reports_the_new_one() -> None:
    dataset = listed(make_dataset(), version=V2)
    cache = make_cache("a", (given(dataset, version=V1), report(dataset, version=V1)))
    assert entry("a", dataset, make_node("a"), cache).retain == (V1,)


def following(uses: tuple[dict[str, Any], ...] = ()) -> tuple[Dataset, NodeCache]:
    """Return vision/imagenet at V2, and node a with a retained V1 and these mounts."""
    dataset = listed(make_dataset(), V2)
    row = report(dataset, retained=(V1,))
    return dataset, make_cache("a", (given(dataset), row), mounts=uses)


def bound_pod(node: str = "", version: str = V1) -> PodView:
    return PodView("vision", "p", node=node, volumes=("vision/imagenet",), versions={"vision/imagenet": version})


def test_a_version_that_a_pod_on_its_way_will_mount_is_fetched_where_it_goes() -> None:
    dataset, cache = following()
    wish = entry("b", dataset, make_node("a"), make_node("b"), cache, bound_pod("b"))
    assert [(one.version, one.manifest_hosts) for one in wish.older] == [(V1, ("a:8081",))]


def test_a_version_that_a_pod_somewhere_needs_stays_where_it_is() -> None:
    dataset, cache = following()
    wish = entry("a", dataset, make_node("a"), cache, bound_pod())
    assert (wish.retain, wish.older) == ((V1,), ())


def test_a_version_that_nobody_needs_goes() -> None:
    dataset, cache = following()
    assert entry("a", dataset, make_node("a"), cache).retain == ()


def test_what_a_mounted_pod_reads_stays_and_is_fetched_no_further() -> None:
    dataset = listed(make_dataset(), V2)
    _, cache = following(uses=(mount(dataset, pod="p", version=V1),))
    wish = entry("a", dataset, make_node("a"), cache, bound_pod("a"))
    assert (wish.retain, wish.older) == ((V1,), ())


def test_versions_that_no_node_has_are_neither_fetched_nor_told() -> None:
    dataset, cache = following()
    view = make_view(dataset, make_node("a"), cache, bound_pod("a", "3" * 64))
    decision = decide_once(view)
    wish = next(one for write in decision.nodes.writes for one in write.spec.datasets)
    assert (wish.older, decision.status("vision/imagenet", "", (), NOW).versions_in_use) == ((), ())


@pytest.mark.parametrize(("phase", "retained"), [("Running", (V1,)), (None, (V1,)), ("Succeeded", ())])
def test_what_a_jobs_workers_read_stays_until_it_ends(phase: str | None, retained: tuple[str, ...]) -> None:
    dataset, cache = following()
    rows = [{"namespace": "vision", "name": "imagenet", "version": V1}]
    job = training_job(status={"phase": phase, "datasets": rows})
    view = replace(make_view(dataset, make_node("a"), cache), training_jobs={job.key: job})
    wish = next(one for write in decide_once(view).nodes.writes for one in write.spec.datasets)
    assert wish.retain == retained


def test_a_job_of_a_namespace_that_a_dataset_does_not_admit_keeps_none_of_its_versions() -> None:
    dataset, cache = following()
    rows = [{"namespace": "vision", "name": "imagenet", "version": V1}]
    job = training_job(status={"phase": "Running", "datasets": rows})
    stranger = job.model_copy(update={"metadata": job.metadata.model_copy(update={"namespace": "stranger"})})
    view = replace(make_view(dataset, make_node("a"), cache), training_jobs={stranger.key: stranger})
    wish = next(one for write in decide_once(view).nodes.writes for one in write.spec.datasets)
    assert wish.retain == ()


def test_a_held_pods_version_is_fetched_where_it_may_go() -> None:
    dataset, cache = following()
    view = make_view(dataset, make_node("a"), make_node("b"), cache, bound_pod())
    wanted, versions = {"vision/imagenet": frozenset({"b"})}, {"vision/imagenet": {"b": frozenset({V1})}}
    written = {write.node.name: write.spec for write in decide_once(view, wanted, versions=versions).nodes.writes}
    assert [one.version for one in written["b"].datasets[0].older] == [V1]
