"""Buttons do what the commands of the CLI do."""

from typing import Any

from stoker_api import names
from stoker_kube.resources import DATASETS, PODS
from tests.support.cases import cases
from tests.unit.stoker_cli.dashboard.users import Browser, cluster, held


def stored(browser: Browser) -> dict[str, Any]:
    return next(item for item in browser.kube.objects(DATASETS) if item["metadata"]["name"] == "imagenet")


@cases("action, annotation", ("warm", names.ANNOTATION_WARM_REQUESTED), ("refresh", names.ANNOTATION_REFRESH_REQUESTED))
def test_a_request_is_an_annotation_with_the_time(action: str, annotation: str) -> None:
    browser = Browser(cluster()).sign_in()
    assert browser.post(f"/datasets/vision/imagenet/{action}").status_code == 200
    assert annotation in stored(browser)["metadata"]["annotations"]


def test_a_paused_dataset_offers_to_resume() -> None:
    browser = Browser(cluster()).sign_in()
    browser.post("/datasets/vision/imagenet/pause")
    browser.reload()
    assert 'action="/datasets/vision/imagenet/resume"' in browser.text("/datasets/vision/imagenet")


def test_resume_ends_the_pause() -> None:
    browser = Browser(cluster()).sign_in()
    browser.post("/datasets/vision/imagenet/pause")
    browser.post("/datasets/vision/imagenet/resume")
    assert stored(browser)["spec"]["warm"]["paused"] is False


def test_release_sets_the_annotation_of_the_command() -> None:
    browser = Browser(cluster()).sign_in()
    answer = browser.post("/pods/vision/reader/release")
    assert "Released reader" in answer.text
    assert browser.kube.objects(PODS)[0]["metadata"]["annotations"][names.ANNOTATION_SCHEDULING] == "None"


def test_a_job_releases_its_held_pods() -> None:
    kube = cluster()
    kube.seed(PODS, held("worker-0", labels={names.LABEL_TRAINING_JOB: "ddp"}))
    browser = Browser(kube).sign_in()
    assert 'action="/jobs/vision/ddp/release"' in browser.text("/jobs/vision/ddp")
    assert "Released worker-0" in browser.post("/jobs/vision/ddp/release").text


@cases("path", "/datasets/vision/none/pause", "/datasets/vision/imagenet/destroy", "/pods/vision/x/release")
def test_what_does_not_exist_is_not_found(path: str) -> None:
    assert Browser(cluster()).sign_in().post(path).status_code == 404


def test_the_result_leads_back_to_the_object() -> None:
    answer = Browser(cluster()).sign_in().post("/datasets/vision/imagenet/warm")
    assert 'role="status"' in answer.text
    assert '<a href="/datasets/vision/imagenet">Back</a>' in answer.text
