"""What a job waited for its data in a queue is a part of its pods' maxWait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_operator.core.earlier_wait import format_earlier_wait, length_of, waited_from
from stoker_operator.core.views import PodView, parse_pod
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import decide_releases, only_hold, only_release

MADE = 10_000.0  # when the pod was made, seconds since the epoch
PREFER = {"mode": "Prefer", "maxWait": "10m"}


def test_a_pod_made_when_its_job_was_let_go_has_waited_since_the_job_began_to() -> None:
    assert waited_from(format_earlier_wait(MADE - 500, MADE - 1), MADE) == MADE - 500


@pytest.mark.parametrize("later", [0.0, 600.0])
def test_the_pods_of_a_large_job_are_made_within_ten_minutes(later: float) -> None:
    assert waited_from(format_earlier_wait(MADE - 900, MADE - later), MADE) == MADE - 900


def test_a_pod_that_replaces_one_later_has_a_wait_of_its_own() -> None:
    assert waited_from(format_earlier_wait(MADE - 900, MADE - 601), MADE) == 0.0


def test_a_pod_that_was_there_before_its_queue_let_it_go_has_waited_too() -> None:
    assert waited_from(format_earlier_wait(MADE + 1, MADE + 500), MADE) == MADE + 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "soon",
        "1970-01-01T02:46:39Z",
        "1970-01-01T02:46:39Z/",
        "/1970-01-01T02:46:39Z",
        "0001-01-01T00:00:00/x",
    ],
)
def test_what_is_no_wait_says_nothing(text: str) -> None:
    assert (waited_from(text, MADE), length_of(text, 0.0)) == (0.0, 0.0)


def test_its_length_is_known_of_the_one_that_began_then() -> None:
    text = format_earlier_wait(MADE - 900, MADE - 1)
    assert [length_of(text, MADE - began) for began in (901, 900, 899.5, 899)] == [0.0, 899.0, 899.0, 0.0]


def test_a_wait_that_ends_before_it_began_says_nothing() -> None:
    text = format_earlier_wait(MADE - 1, MADE - 2)
    assert (waited_from(text, MADE), length_of(text, MADE - 1)) == (0.0, 0.0)


@given(st.text(max_size=60), st.floats(0, 1e10))
def test_whatever_stands_there_is_read(text: str, made: float) -> None:
    assert waited_from(text, made) >= 0.0


def test_it_is_read_off_the_pod() -> None:
    notes = {names.ANNOTATION_WAITED: "2026-11-23T10:00:00Z/2026-11-23T10:08:00Z"}
    meta = {
        "namespace": "vision",
        "name": "p",
        "labels": {names.LABEL_MANAGED: "true"},
        "annotations": notes,
        "creationTimestamp": "2026-11-23T10:08:01Z",
    }
    pod = parse_pod({"metadata": meta, "spec": {}})
    assert pod.waited_from == pod.created - 481


class TestGate:
    def one(self, **fields: float) -> PodView:
        return held("p", created=MADE, **fields)

    def test_it_is_held_for_what_is_left_of_its_max_wait(self) -> None:
        view = cluster(dataset(scheduling=PREFER), node("a"), self.one(waited_from=MADE - 400))
        assert only_hold(decide_releases(view, MADE)).deadline == MADE + 200

    def test_it_goes_at_once_where_nothing_is_left(self) -> None:
        view = cluster(dataset(scheduling=PREFER), node("a"), self.one(waited_from=MADE - 600))
        assert only_release(decide_releases(view, MADE)).reason == "MaxWaitPassed"

    def test_where_nothing_is_left_it_goes_to_a_warm_node_that_has_room(self) -> None:
        view = cluster(dataset(scheduling=PREFER), node("a"), holding("a"), self.one(waited_from=MADE - 600))
        assert only_release(decide_releases(view, MADE)).reason == "Released"

    def test_where_it_says_it_waits_until_later_its_own_wait_counts(self) -> None:
        view = cluster(dataset(scheduling=PREFER), node("a"), self.one(waited_from=MADE + 400))
        assert only_hold(decide_releases(view, MADE)).deadline == MADE + 600
