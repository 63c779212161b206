"""Three users of one cluster see and change what their rights allow, and the page says which right is missing."""

import pytest

from stoker_api import names
from stoker_kube.errors import NotFound, Unavailable
from stoker_kube.resources import DATASETS, POD_FIGURES, PODS
from tests.support.cases import cases
from tests.unit.stoker_cli.dashboard.users import ADMIN_READS, TENANT_READS, WRITES, Browser, Rights, cluster

USERS: dict[str, tuple[Rights, Rights]] = {
    "administrator": (ADMIN_READS, dict.fromkeys(("datasets", "pods"), ("*",))),
    "editor": (TENANT_READS, WRITES),
    "stranger": ({}, {}),
}


def browser_of(user: str) -> Browser:
    return Browser(cluster(*USERS[user])).sign_in()


@cases("user, shown", ("administrator", {"vision", "text"}), ("editor", {"vision"}), ("stranger", set()))
def test_a_user_sees_the_datasets_of_readable_namespaces(user: str, shown: set[str]) -> None:
    html = browser_of(user).text("/datasets")
    assert {namespace for namespace in ("vision", "text") if f'href="/datasets/{namespace}/' in html} == shown


@cases(
    "user, notice",
    ("editor", "Only namespace vision is shown: you may not list datasets.stoker.dev in all namespaces."),
    ("stranger", "You may not list datasets.stoker.dev in namespace vision."),
    ("editor", "ClusterRole stoker-node-view"),
    ("stranger", "You may not list pods in namespace vision."),
)
def test_the_page_names_the_missing_right(user: str, notice: str) -> None:
    assert notice in browser_of(user).text("/")


def test_an_administrator_has_no_notice() -> None:
    assert "Notices" not in browser_of("administrator").text("/")


def test_a_user_without_nodecaches_sees_the_nodes_in_statuses() -> None:
    kube = cluster(*USERS["editor"])
    kube.objects(DATASETS)
    kube._objects[DATASETS]["vision", "imagenet"]["status"]["nodes"] = [{"name": "node-7", "phase": "Warm"}]
    html = Browser(kube).sign_in().text("/")
    assert "node-7" in html
    assert "at most 50 for each Dataset" in html


def test_a_user_without_nodecaches_sees_a_node_by_its_datasets() -> None:
    assert "ClusterRole stoker-node-view" in browser_of("editor").text("/nodes/node-1")


@pytest.mark.parametrize(("user", "allowed"), [("administrator", True), ("editor", True), ("stranger", False)])
def test_a_change_needs_the_right_to_patch(user: str, allowed: bool) -> None:
    browser = browser_of(user)
    answer = browser.post("/datasets/vision/imagenet/pause")
    (stored,) = [item for item in browser.kube.objects(DATASETS) if item["metadata"]["name"] == "imagenet"]
    assert answer.status_code == (200 if allowed else 403)
    assert stored["spec"].get("warm") == ({"paused": True} if allowed else None)
    assert allowed or "verb patch on datasets.stoker.dev in namespace vision" in answer.text


def test_a_button_without_its_right_is_disabled_and_says_why() -> None:
    html = Browser(cluster(ADMIN_READS, {})).sign_in().text("/datasets/vision/imagenet")
    assert html.count(" disabled>") == 3
    assert "Ask for the verb patch on datasets.stoker.dev in namespace vision" in html


def test_an_editor_may_not_change_another_namespace() -> None:
    assert browser_of("editor").post("/datasets/text/wiki/pause").status_code == 403


def test_a_refused_release_names_the_right() -> None:
    browser = Browser(cluster(ADMIN_READS, {})).sign_in()
    answer = browser.post("/pods/vision/reader/release")
    assert answer.status_code == 403
    assert "verb patch on pods in namespace vision" in answer.text
    assert names.ANNOTATION_SCHEDULING not in browser.kube.objects(PODS)[0]["metadata"]["annotations"]


def test_an_unreadable_pod_is_an_error_page() -> None:
    answer = browser_of("editor").http.get("/pods/text/secret")
    assert answer.status_code == 403
    assert "cannot get resource" in answer.text


def test_a_right_that_is_granted_later_is_used() -> None:
    kube = cluster({}, {})
    browser = Browser(kube).sign_in()
    kube._reads = ADMIN_READS
    browser.reload()
    assert "imagenet" in browser.text("/datasets")


def test_during_an_outage_the_last_objects_stay_with_a_notice() -> None:
    browser = browser_of("administrator")
    browser.kube.outage = Unavailable(503, "Unavailable", "the server is down")
    browser.reload()
    html = browser.text("/datasets")
    assert "/datasets/vision/imagenet" in html
    assert "cannot be read, so older ones are shown, if any: the server is down" in html


def test_figures_of_another_release_are_left_out() -> None:
    kube = cluster()
    workload = {"pod": "vision/trainer", "phase": "Training"}
    known = {"metadata": {"namespace": "vision", "name": "trainer"}, "node": "node-1", "workload": workload}
    odd = {"metadata": {"namespace": "vision", "name": "odd"}, "workload": {"pod": "vision/odd", "source": "telepathy"}}
    kube.seed(POD_FIGURES, known, odd)
    html = Browser(kube).sign_in().text("/pods")
    assert "/pods/vision/trainer" in html
    assert "/pods/vision/odd" not in html


def test_what_was_never_read_is_not_zero() -> None:
    kube = cluster()
    kube.outage = Unavailable(503, "Unavailable", "the server is down")
    html = Browser(kube).sign_in().text("/")
    assert "<dt>Datasets</dt><dd>not read yet</dd>" in html


def test_without_the_crds_the_page_asks_for_stoker() -> None:
    kube = cluster()
    kube.refuse("list", DATASETS, NotFound(404, "NotFound", "no such resource"))
    assert "Is Stoker installed?" in Browser(kube).sign_in().text("/datasets")


def test_without_the_figures_api_pods_come_from_nodecaches() -> None:
    kube = cluster()
    kube.refuse("list", POD_FIGURES, NotFound(404, "NotFound", "no such resource"))
    workload = {"pod": "vision/trainer", "phase": "Training", "datasets": ["vision/imagenet"]}
    kube._objects[next(kind for kind in kube._objects if kind.plural == "nodecaches")]["", "node-1"]["status"][
        "workloads"
    ] = [workload]
    html = Browser(kube).sign_in().text("/pods")
    assert 'href="/pods/vision/trainer"' in html
    assert "Figures of pods are from NodeCaches" in html
