"""Texts of the cluster are untrusted: in no place do they become HTML."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from stoker_api import names
from stoker_kube.errors import NotFound
from stoker_kube.resources import DATASETS, EVENTS, NODE_CACHES, POD_FIGURES, PODS, TRAINING_JOBS
from tests.unit.stoker_cli.builders import condition
from tests.unit.stoker_cli.dashboard.users import ADMIN_READS, WRITES, Browser, UserKube, dataset, held, job, node

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u202e{{7*7}}"
PATHS = [
    "/",
    "/?q=" + HOSTILE,
    "/datasets",
    "/datasets?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    "/datasets/vision/imagenet",
    "/datasets/vision/none%3Cscript%3E",
    "/nodes",
    "/nodes/node-1",
    "/nodes/%3Cscript%3Ealert(1)",
    "/jobs",
    "/jobs/vision/ddp",
    "/pods",
    "/pods/vision/reader",
]


def every_text_of_a_dataset() -> dict[str, Any]:
    texts = ("version", "versionShort", "total", "cachedPercent", "warmNodes", "speed", "eta", "className", "state")
    rows = [dict.fromkeys(("name", "phase", "version", "eta", "mode", "lastError"), HOSTILE)]
    conditions = [
        condition(kind, "True", HOSTILE, reason=HOSTILE) for kind in (HOSTILE, "Degraded", "OnTime", "Limited")
    ]
    status: dict[str, Any] = dict.fromkeys(texts, HOSTILE)
    return status | {"nodes": rows, "conditions": conditions, "versionsInUse": [HOSTILE]}


@pytest.fixture(scope="module")
def browser() -> Browser:
    kube = UserKube(ADMIN_READS, WRITES)
    kube.refuse("list", POD_FIGURES, NotFound(404, "NotFound", HOSTILE))
    named = dataset("x", HOSTILE, **every_text_of_a_dataset())
    kube.seed(DATASETS, dataset(**every_text_of_a_dataset()), named)
    fields = ("phase", "loss", "meanLoss", "checkpoint", "framework", "job", "tuned", "order", "orderMessage")
    workload = dict.fromkeys(fields, HOSTILE[:40]) | {"pod": f"vision/{HOSTILE}", "datasets": ["vision/imagenet"]}
    row = {"namespace": HOSTILE, "name": HOSTILE, "uid": "u", "phase": "Warm"}
    messages = dict.fromkeys(("sidecarVersion", "observer", "confinement", "cpus", "modesMessage"), HOSTILE)
    messages["confinement"] = f"None: {HOSTILE}"
    ready = condition("Ready", "False", HOSTILE)
    kube.seed(NODE_CACHES, node(workloads=[workload], datasets=[row], conditions=[ready], **messages), node(HOSTILE))
    owner = [{"kind": "Job", "name": HOSTILE, "controller": True, "apiVersion": "batch/v1"}]
    pod = held(reason=HOSTILE, ownerReferences=owner)
    pod["metadata"]["annotations"] |= {
        names.ANNOTATION_DATASETS: f"{HOSTILE}:/data",
        names.ANNOTATION_HELD_SINCE: HOSTILE,
    }
    kube.seed(PODS, pod, held(HOSTILE))
    event = {"metadata": {"namespace": "vision", "name": "e"}, "reason": HOSTILE, "message": HOSTILE}
    kube.seed(EVENTS, event | {"involvedObject": {"uid": kube.objects(PODS)[-1]["metadata"]["uid"]}})
    training = dict.fromkeys(
        ("phase", "currentEpoch", "stall", "stallSource", "meanLoss", "checkpoint", "problem"), HOSTILE
    )
    goodput = {"message": HOSTILE, "stallMissing": HOSTILE[:40], "pods": 1}
    status: dict[str, Any] = {"workers": HOSTILE, "data": HOSTILE, "training": training, "goodput": goodput}
    order = condition("Order", "True", HOSTILE, reason=HOSTILE)
    kube.seed(TRAINING_JOBS, job(**status, conditions=[order]), job(HOSTILE))
    return Browser(kube, "vision<script>").sign_in()


class Attributes(HTMLParser):
    """The tags, the names of attributes and the addresses of scripts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.scripts: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        if tag == "script":
            self.scripts |= {dict(attrs).get("src") or "inline"}


@pytest.mark.parametrize("path", PATHS)
def test_no_text_becomes_html(browser: Browser, path: str) -> None:
    html = browser.http.get(path).text
    parser = Attributes()
    parser.feed(html)
    assert parser.scripts <= {"/static/dashboard.js"}
    assert not {name for name in parser.names if name.startswith(("on", "style", "src"))} - {"src"}
    assert "img" not in parser.tags
    assert "\u202e" not in html
    assert "{{7*7}}" in html or "49" not in html


@pytest.mark.parametrize("path", ["/", "/datasets", "/datasets/vision/imagenet", "/nodes", "/jobs", "/pods"])
def test_the_text_itself_is_shown(browser: Browser, path: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in browser.text(path)


@pytest.mark.parametrize("path", ["/", "/datasets", "/nodes", "/jobs", "/pods"])
def test_a_link_leads_to_this_server(browser: Browser, path: str) -> None:
    links = set(re.findall(r'href="([^"]*)"', browser.text(path))) - {"#content"}
    assert links
    assert [link for link in links if not re.fullmatch(r"/(?!/)[\w./%?=&;+~-]*", link)] == []


def test_an_error_of_the_api_server_is_escaped(browser: Browser) -> None:
    answer = browser.http.get("/jobs/vision/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert "<script>alert" not in answer.text
