"""What the pages show."""

import re
from typing import Any

import pytest

from stoker_kube.errors import NotFound
from stoker_kube.resources import DATASETS, NODE_CACHES, POD_FIGURES, PODS, TRAINING_JOBS
from tests.support.cases import cases
from tests.unit.stoker_cli.builders import condition
from tests.unit.stoker_cli.dashboard.users import (
    ADMIN_READS,
    SINCE,
    WRITES,
    Browser,
    UserKube,
    cluster,
    dataset,
    held,
    job,
    node,
)

WARMING: dict[str, Any] = {
    "phase": "Warming",
    "total": "100 B",
    "version": "a" * 64,
    "versionShort": "a" * 12,
    "versionsInUse": ["b" * 64],
    "wantedBytes": 200,
    "cachedBytes": 50,
    "cachedPercent": "25%",
    "speed": "5 B/s",
    "bytesPerSecond": 5,
    "eta": "30s",
    "warmNodes": "0/2",
    "conditions": [condition("Warm", "False", "2 of 4 files are on node-1")],
    "nodes": [{"name": "node-1", "phase": "Warming", "warmBytes": 50, "lastError": "the key was refused"}],
}
GOODPUT = {"pods": 2, "dataBytes": 100, "warmBytes": 50, "watchedSeconds": 100, "stalledSeconds": 12}
TRAINING = {"phase": "Training", "currentEpoch": "3/90", "stall": "12%", "stallSource": "report"}
RUNNING: dict[str, Any] = {
    "workers": "2/2",
    "data": "100%",
    "training": TRAINING,
    "goodput": GOODPUT,
    "conditions": [condition("Order", "True", "reads match", reason="OrderKnown")],
}


@pytest.fixture(scope="module")
def browser() -> Browser:
    kube = UserKube(ADMIN_READS, WRITES)
    kube.refuse("list", POD_FIGURES, NotFound(404, "NotFound", "an older chart"))
    kube.seed(DATASETS, dataset(**WARMING), dataset("text", "wiki"))
    workload = {"pod": "vision/trainer", "phase": "Training", "epoch": 2, "datasets": ["vision/imagenet"], "job": "ddp"}
    error = {"reason": "AccessDenied", "message": "the key was refused"}
    row = node()["status"]["datasets"][0] | {"error": error}
    origin = {"name": "bucket", "fetching": True, "bytesPerSecond": 2048, "milliRequestsPerSecond": 1500}
    throttled = {"name": "bucket", "bytesPerSecond": 1024, "milliRequestsPerSecond": 500, "throttledAt": SINCE}
    kube.seed(
        NODE_CACHES,
        node(workloads=[workload], origins=[origin], datasets=[row]),
        node("node-2", datasets=[], conditions=[], origins=[throttled]),
    )
    kube.seed(
        PODS, held(ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "prepare", "controller": True}])
    )
    kube.seed(TRAINING_JOBS, job(**RUNNING))
    return Browser(kube).sign_in()


def words(html: str) -> str:
    """Return the text of a page on one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


@cases(
    "path, shown",
    ("/", "2: 1 Ready, 1 Warming"),
    ("/", "Nodes 2, 1 ready"),
    ("/", "Held pods 1"),
    ("/", "TrainingJobs 1: 1 Running"),
    ("/", "From peers instead of the origin 3.0 KiB of 4.0 KiB"),
    ("/", "vision/imagenet Warming 100%"),
    ("/datasets", "vision/imagenet Warming 4 100 B 25% 0/2 5 B/s 30s 2 of 4 files are on node-1"),
    ("/datasets/vision/imagenet", "25%, 50 B of 200 B on its nodes"),
    ("/datasets/vision/imagenet", "Older versions in use bbbbbbbbbbbb"),
    ("/datasets/vision/imagenet", "Warm False R 2 of 4 files are on node-1"),
    ("/datasets/vision/imagenet", "node-1 Warming 50 B 50% - - - the key was refused"),
    ("/datasets/vision/imagenet", "From peers instead of the origin 3.0 KiB"),
    ("/datasets/vision/imagenet", "vision/trainer node-1 Training 3"),
    ("/nodes", "node-2 no 0 0 0 B 0 B The sidecar has not reported yet."),
    ("/nodes/node-1", "vision/imagenet Warm 100 B 100% - - 1.0 KiB source, 3.0 KiB peers"),
    ("/nodes", "bucket 1 of 2 3.0 KiB/s 2.0/s 2026-11-21T10:00:00Z"),
    ("/nodes/node-1", "source, 3.0 KiB peers the key was refused"),
    ("/nodes/node-1", "bucket yes 2.0 KiB/s 1.5/s -"),
    ("/nodes/node-9", "There is no NodeCache node-9"),
    ("/jobs", "vision/ddp Running 2/2 100% Training 3/90 12% 50 % warm at start, 12.0 % stalled OrderKnown"),
    ("/jobs/vision/ddp", "TrainingJob vision/ddp: Running. So far."),
    ("/jobs/vision/ddp", "Stall 12% (report)"),
    ("/jobs/vision/ddp", "warm at start 50 %"),
    ("/jobs/vision/ddp", "vision/trainer node-1"),
    ("/pods", "imagenet Job prepare no node is warm yet"),
    ("/pods/vision/reader", "It is held: no node is warm yet"),
    ("/pods/vision/reader", "State Held"),
)
def test_a_page_shows(browser: Browser, path: str, shown: str) -> None:
    assert shown in words(browser.text(path))


@cases("path, view", ("/", "/"), ("/datasets/vision/imagenet", "/datasets"), ("/pods/vision/reader", "/pods"))
def test_the_navigation_marks_the_view(browser: Browser, path: str, view: str) -> None:
    assert re.findall(r'href="([^"]*)" aria-current="page"', browser.text(path)) == [view]


@pytest.mark.parametrize("path", ["/", "/datasets", "/datasets/vision/imagenet", "/nodes", "/jobs", "/pods"])
def test_a_page_is_usable_by_screen_readers(browser: Browser, path: str) -> None:
    html = browser.text(path)
    identifiers = re.findall(r'\bid="([^"]+)"', html)
    named = {name for group in re.findall(r'aria-(?:labelledby|describedby)="([^"]+)"', html) for name in group.split()}
    assert len(identifiers) == len(set(identifiers))
    assert named <= set(identifiers)
    assert set(re.findall(r'<label for="([^"]+)"', html)) <= set(identifiers)
    assert [html.count(f"<{tag}") for tag in ("main", "h1", "html lang=")] == [1, 1, 1]
    assert html.count("<tr>") - html.count("<thead>") == html.count('scope="row"')
    assert not re.search(r"<th(?! scope=)[ >]", html.replace("<thead", ""))


def test_an_unknown_dataset_is_not_found(browser: Browser) -> None:
    answer = browser.http.get("/datasets/vision/none")
    assert answer.status_code == 404
    assert "No Dataset none in namespace vision" in answer.text


def test_a_search_shows_the_datasets_with_the_text(browser: Browser) -> None:
    html = browser.text("/datasets?q=wik")
    assert "text/wiki" in html
    assert "vision/imagenet" not in html


@pytest.mark.parametrize("query", ["page=x", "page=-5", "page=0", "page=99999999999999999999", "first=-1&count=-3"])
def test_a_wrong_number_in_the_address_is_corrected(browser: Browser, query: str) -> None:
    assert "vision/imagenet" in browser.text(f"/?{query}")


def test_a_dataset_outside_the_lists_is_read_when_it_is_opened() -> None:
    kube = cluster()
    browser = Browser(kube).sign_in()
    kube.seed(DATASETS, dataset("vision", "new"))
    assert "Dataset vision/new" in browser.text("/datasets/vision/new")
