"""The API server's warnings when pods, and objects that make pods, are created under the chart's policy."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from stoker_api import names
from tests.support.apiserver import ApiServer
from tests.support.chart import of_kind, render
from tests.support.waiting import wait_until

SECONDS = 60.0  # until a new policy takes effect
CONTAINER = {"name": "main", "image": "none"}
POLICY = "stoker-hints"
COPY = "hints-of-the-test"  # the tests of rights create and remove the chart's own


class Creator:
    """Creates objects with dry run, and returns the API server's warnings."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace

    def warnings(self, plural: str, body: dict[str, Any]) -> list[str]:
        """Return the warnings of Stoker's policy, without the API server's prefix."""
        group = body["apiVersion"]
        path = f"/{'api' if group == 'v1' else 'apis'}/{group}/namespaces/{self._namespace}/{plural}?dryRun=All"
        headers = {"Authorization": f"Bearer {self._server.token}", "Content-Type": "application/json"}
        content = json.dumps(body).encode()
        request = urllib.request.Request(self._server.url + path, content, headers=headers, method="POST")
        with urllib.request.urlopen(request, context=self._server.tls, timeout=30) as answer:
            found = answer.headers.get_all("Warning") or []
        parts = (one.split(f"binding '{COPY}': ", 1) for one in found)
        return [part[1].rstrip('"').replace("\\", "") for part in parts if len(part) == 2]


@pytest.fixture(scope="module")
def creator(apiserver: ApiServer, shared_namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Creator]:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policies = [one for one in of_kind(render({}), *kinds) if one["metadata"]["name"] == POLICY]
    file = tmp_path_factory.mktemp("hints") / "policies.yaml"
    file.write_text(yaml.safe_dump_all(policies).replace(f"ame: {POLICY}", f"ame: {COPY}"))  # name and policyName
    apiserver.kubectl("apply", f"--filename={file}")
    made = Creator(apiserver, shared_namespace)
    wait_until(lambda: bool(made.warnings("pods", pod(dataset="x:/x"))), SECONDS)
    yield made
    apiserver.kubectl("delete", "--wait=false", f"--filename={file}")


def notes(annotations: dict[str, str]) -> dict[str, str]:
    return {f"stoker.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}


def pod(volumes: Any = (), labels: Any = None, **annotations: str) -> dict[str, Any]:
    meta = {"name": "p", "annotations": notes(annotations), "labels": labels or {}}
    spec = {"containers": [CONTAINER], "volumes": list(volumes)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def job(above: dict[str, str] | None = None, deadline: int | None = None, **annotations: str) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": notes(annotations)},
        "spec": {"containers": [CONTAINER], "restartPolicy": "Never"},
    }
    spec = {"template": template} | ({"activeDeadlineSeconds": deadline} if deadline else {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "annotations": notes(above or {})},
        "spec": spec,
    }


def cron_job(**parts: Any) -> dict[str, Any]:
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": job(**parts)["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}


def deployment(above: dict[str, str]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    meta = {"name": "d", "annotations": notes(above)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def training_job(above: dict[str, str], **annotations: str) -> dict[str, Any]:
    template = {"metadata": {"annotations": notes(annotations)}, "spec": {"containers": [CONTAINER]}}
    meta = {"name": "t", "annotations": notes(above)}
    return {"apiVersion": names.API_VERSION, "kind": "TrainingJob", "metadata": meta, "spec": {"template": template}}


def unknown(key: str, meant: str) -> str:
    return f"stoker.dev/{key} is unknown to Stoker and does nothing: did you mean stoker.dev/{meant}?"


ABOVE = "stoker.dev/datasets does nothing on the {} itself: write it in {}"
TEMPLATE = "spec.template.metadata.annotations"
UNMOUNTED = (
    "stoker.dev/datasets names {0} without a path, so nothing is mounted: write {0}:/data, or mount its "
    "PersistentVolumeClaim"
)
DEADLINE = (
    "activeDeadlineSeconds also counts while its pods are held for their data: allow for stoker.dev/max-wait (default "
    "10m), or set stoker.dev/scheduling to None"
)
CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "imagenet"}}

WARNED = [
    ("pods", pod(dataset="a:/a"), unknown("dataset", "datasets")),
    ("pods", pod(datasest="a:/a"), unknown("datasest", "datasets")),
    ("pods", pod(datasets="a:/a", samplng="{}"), unknown("samplng", "sampling")),
    ("pods", pod(labels={"stoker.dev/gnag": "x"}), "stoker.dev/gnag is unknown to Stoker and does nothing: known are "),
    ("pods", pod(datasets="imagenet"), UNMOUNTED.format("imagenet")),
    ("pods", pod(datasets="a:/a, team-b/coco@1f3a5c7e9b2d"), UNMOUNTED.format("team-b/coco")),
    ("jobs", job(dataset="a:/a"), unknown("dataset", "datasets")),
    ("jobs", job(above={"datasets": "a:/a"}), ABOVE.format("Job", TEMPLATE)),
    ("jobs", job(deadline=20, datasets="a:/a"), DEADLINE),
    ("cronjobs", cron_job(max_wiat="1m"), unknown("max-wiat", "max-wait")),
    ("cronjobs", cron_job(deadline=20, datasets="a:/a"), DEADLINE),
    ("deployments", deployment({"datasets": "a:/a"}), ABOVE.format("Deployment", TEMPLATE)),
    ("trainingjobs", training_job({"datasets": "a:/a"}), ABOVE.format("TrainingJob", TEMPLATE)),
    ("trainingjobs", training_job({}, repotr="false"), unknown("repotr", "report")),
]


@pytest.mark.parametrize(
    ("plural", "body", "sentence"), WARNED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_does_nothing_is_warned_of(creator: Creator, plural: str, body: dict[str, Any], sentence: str) -> None:
    (warning,) = creator.warnings(plural, body)
    assert warning.startswith(sentence)
    assert len(warning) <= 256


QUIET = [
    ("pods", pod()),
    ("pods", pod(datasets="a:/a", scheduling="Prefer", max_wait="1m", containers="main", report="false")),
    ("pods", pod(datasets="a:/a", waiting="x", labels={"stoker.dev/gang": "g", "stoker.dev/managed": "true"})),
    ("pods", pod(datasets="imagenet", volumes=[CLAIM])),
    ("jobs", job()),
    ("jobs", job(deadline=20)),
    ("jobs", job(deadline=20, datasets="a:/a", scheduling="None")),
    ("jobs", job(above={"template_hash": "x"}, datasets="a:/a")),
    ("jobs", job(above={"datasets": "a:/a"}, datasets="a:/a")),
    ("cronjobs", cron_job(datasets="a:/a")),
    ("deployments", deployment({})),
    ("trainingjobs", training_job({})),
]


@pytest.mark.parametrize(("plural", "body"), QUIET)
def test_what_is_right_is_not_warned_of(creator: Creator, plural: str, body: dict[str, Any]) -> None:
    assert creator.warnings(plural, body) == []


def test_a_pod_with_as_many_annotations_as_fit_is_created(creator: Creator) -> None:
    many = {f"stoker.dev/x{number}": "" for number in range(10_000)}
    body = pod()
    body["metadata"]["annotations"] = many
    creator.warnings("pods", body)


def test_the_policy_knows_the_annotations_that_the_code_knows() -> None:
    (policy,) = (one for one in of_kind(render({}), "ValidatingAdmissionPolicy") if one["metadata"]["name"] == POLICY)
    lists = {one["name"]: one["expression"] for one in policy["spec"]["variables"]}
    known = {name: tuple(yaml.safe_load(lists[name])) for name in ("known", "own")}
    assert known == {"known": names.USER_ANNOTATIONS, "own": names.OWN_ANNOTATIONS}
