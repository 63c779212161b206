"""The time that a job waited for data in a queue counts toward the maxWait of its pods."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_operator.core.views.cluster import PodView, parse_pod
from stoker_operator.core.views.earlier_wait import format_earlier_wait, length_of, waited_from
from tests.support.cases import cases
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import decide_releases, only_hold, only_release

MADE = 10_000.0  # creation of the pod, in seconds since the epoch
PREFER = {"mode": "Prefer", "maxWait": "10m"}


@cases(
    "since, until, waited",
    made_when_its_job_was_let_go=(MADE - 500, MADE - 1, MADE - 500),
    made_at_once=(MADE - 900, MADE, MADE - 900),
    made_ten_minutes_later_for_a_large_job=(MADE - 900, MADE - 600, MADE - 900),
    made_later_to_replace_one=(MADE - 900, MADE - 601, 0.0),
    made_before_its_queue_let_it_go=(MADE + 1, MADE + 500, MADE + 1),
)
def test_a_pod_has_waited_since_its_job_began_to(since: float, until: float, waited: float) -> None:
    assert waited_from(format_earlier_wait(since, until), MADE) == waited


@cases(
    "text",
    "",
    "/",
    "soon",
    "1970-01-01T02:46:39Z",
    "1970-01-01T02:46:39Z/",
    "/1970-01-01T02:46:39Z",
    "0001-01-01T00:00:00/x",
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

    @cases(
        "began, deadline", for_what_is_left=(MADE - 400, MADE + 200), not_for_a_wait_to_come=(MADE + 400, MADE + 600)
    )
    def test_it_is_held_for_its_max_wait(self, began: float, deadline: float) -> None:
        view = cluster(dataset(scheduling=PREFER), node("a"), self.one(waited_from=began))
        assert only_hold(decide_releases(view, MADE)).deadline == deadline

    def test_it_goes_at_once_where_nothing_is_left(self) -> None:
        view = cluster(dataset(scheduling=PREFER), node("a"), self.one(waited_from=MADE - 600))
        assert only_release(decide_releases(view, MADE)).reason == "MaxWaitPassed"

    def test_where_nothing_is_left_it_goes_to_a_warm_node_that_has_room(self) -> None:
        view = cluster(dataset(scheduling=PREFER), node("a"), holding("a"), self.one(waited_from=MADE - 600))
        assert only_release(decide_releases(view, MADE)).reason == "Released"
