"""For any request body, an answer has at most 1 MiB and takes at most 100 ms of CPU."""

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal
from stoker_operator.core.pods.injection import decide_injection
from stoker_operator.core.pods.pod_manifest import decode_pod
from stoker_operator.core.views.catalog import CatalogEntry
from stoker_operator.errors import MalformedReviewError
from stoker_operator.webhook.review import Result, review
from stoker_operator.webhook.review_request import read_review
from stoker_operator.webhook.server import MOST_BODY
from tests.support.cases import cases
from tests.support.cpu_speed import slowdown
from tests.unit.stoker_operator.core.test_injection import CATALOG as SOME
from tests.unit.stoker_operator.core.test_injection import pods

CATALOG = {f"vision/d{index}": CatalogEntry("vision", f"d{index}", version="1" * 64) for index in range(20)}
MOST_ANSWER, MOST_SECONDS = 1024 * 1024, 0.1


def annotation(datasets: int = 20, length: int = 1580) -> str:
    """Return the annotation of Datasets with mount paths of ``length`` characters."""
    return ",".join(f"d{index}:/{index:02}{'/p' * ((length - 3) // 2)}" for index in range(datasets))


def container(index: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a container with the defaults of the API server."""
    defaults = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }
    return {"name": f"c{index}", "image": "x"} | defaults | fields


def pod(spec: Any = None, annotations: Any = None, **metadata: Any) -> dict[str, Any]:
    named = {names.ANNOTATION_DATASETS: annotation(1, 10)} | (annotations or {})
    body = spec if spec is not None else {"containers": [container()]}
    return {"kind": "Pod", "metadata": {"annotations": named} | metadata, "spec": body}


def posted(body: Any) -> bytes:
    request = {"uid": "1", "namespace": "vision", "object": body, "oldObject": None}
    return json.dumps({"request": request}, separators=(",", ":")).encode()


def cost(body: bytes, most: float = MOST_SECONDS) -> tuple[float, int, Result]:
    """Return the CPU time in seconds of the reference machine, the bytes of the answer, and the result.

    Takes the minimum of up to twenty runs, since other processes share the CPU's caches.
    """
    seconds = list[float]()
    for _ in range(20):
        began = time.thread_time()
        try:
            reviewed = review(body, CATALOG, reports=True)
            size, result = len(msgspec.json.encode(reviewed.answer)), reviewed.result
        except MalformedReviewError as error:
            size, result = len(str(error)), Result.MALFORMED
        seconds.append((time.thread_time() - began) / slowdown())
        if seconds[-1] <= most:
            break
    return min(seconds), size, result


def many(item: Any, around: int = 0) -> list[Any]:
    """Return the maximum number of items in a review."""
    return [item] * ((MOST_BODY - 3000 - around) // (len(json.dumps(item, separators=(",", ":"))) + 1))


def many_keys() -> dict[str, str]:
    return {f"{index:x}": "" for index in range(250_000)}


def affine(terms: list[Any]) -> dict[str, Any]:
    """Return a spec with these required node selector terms."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"containers": [container()], "affinity": {"nodeAffinity": required}}


MOUNTS = [{"name": f"v{index}", "mountPath": f"/m/{index}" + "/x" * 1000} for index in range(1000)]
ALL_ALLOWED = {
    "containers": [container(index, volumeMounts=MOUNTS[index * 40 : index * 40 + 40]) for index in range(25)],
    "volumes": [{"name": f"v{index}", "emptyDir": {}} for index in range(250)],
}
# Each is made by the test that posts it, since together they take much memory.
HOSTILE: dict[str, Callable[[], Any]] = {
    "all that is allowed": lambda: pod(ALL_ALLOWED, {names.ANNOTATION_DATASETS: annotation(20, 1000)}),
    "all that is allowed, and all else": lambda: pod(
        ALL_ALLOWED, {names.ANNOTATION_DATASETS: annotation(20, 1000)}, managedFields=[{"f:a": {}}] * 80_000
    ),
    "the longest paths": lambda: pod(
        {"containers": [container(index) for index in range(25)]}, {names.ANNOTATION_DATASETS: annotation()}
    ),
    "containers": lambda: pod({"containers": [container(index) for index in range(18_000)]}),
    "small containers": lambda: pod({"containers": many({"name": ""})}),
    "nameless containers": lambda: pod({"containers": many({})}),
    "init containers": lambda: pod({"containers": [], "initContainers": many({"name": ""})}),
    "ephemeral containers": lambda: pod({"containers": [], "ephemeralContainers": many({"name": ""})}),
    "mounts": lambda: pod({"containers": [container(volumeMounts=many({"name": ""}))]}),
    "variables": lambda: pod({"containers": [container(env=many({"name": ""}))]}),
    "arguments": lambda: pod({"containers": [container(args=many(""))]}),
    "limits": lambda: pod({"containers": [container(resources={"limits": many_keys()})]}),
    "volumes": lambda: pod({"containers": [container()], "volumes": many({"name": ""})}),
    "volume attributes": lambda: pod(
        {
            "containers": [container()],
            "volumes": [{"name": "v", "csi": {"volumeAttributes": many_keys()}}],
        }
    ),
    "affinity terms": lambda: pod(affine(many({}))),
    "affinity values": lambda: pod(affine([{"matchExpressions": [{"key": "a", "values": many("")}]}])),
    "affinity expressions": lambda: pod(affine([{"matchExpressions": many({})}])),
    "tolerations": lambda: pod({"containers": [container()], "tolerations": many({})}),
    "a node selector": lambda: pod({"containers": [container()], "nodeSelector": many_keys()}),
    "gates": lambda: pod({"containers": [container()], "schedulingGates": many({"name": ""})}),
    "owners": lambda: pod(ownerReferences=many({"name": ""})),
    "labels": lambda: pod(labels=many_keys()),
    "annotations": lambda: pod(annotations=many_keys()),
    "managed fields": lambda: pod(managedFields=many({"f:a": {}})),
    "a long path": lambda: pod(
        {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/a/." * 700_000}])]}
    ),
    "a long container name": lambda: pod({"containers": [container() | {"name": "\n" * 1_400_000}]}),
    "named containers": lambda: pod(annotations={names.ANNOTATION_CONTAINERS: "a," * 1_400_000}),
    "a long wait": lambda: pod(annotations={names.ANNOTATION_MAX_WAIT: "1s" * 1_400_000}),
    "a long mode": lambda: pod(annotations={names.ANNOTATION_SCHEDULING: "\0" * 450_000}),
    "a long gang": lambda: pod(annotations={names.ANNOTATION_GANG_SIZE: "9" * 2_900_000}),
    "a long order": lambda: pod(annotations={names.ANNOTATION_SAMPLING: "[" * 2_900_000}),
    "a long Dataset": lambda: pod(annotations={names.ANNOTATION_DATASETS: "a-" * 16_000 + "!"}),
    "a long profile": lambda: {"kind": "TuningProfile", "metadata": {"name": "x"}, "spec": {"rules": many({}, 100)}},
    "a nested profile": lambda: {"kind": "TuningProfile", "spec": json.loads("[" * 400 + "]" * 400)},
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_review_costs_more_than_its_budget(body: Callable[[], Any]) -> None:
    text = posted(body())
    assert len(text) <= MOST_BODY
    seconds, size, _ = cost(text)
    assert (size <= MOST_ANSWER, seconds <= MOST_SECONDS) == (True, True), f"{size} bytes, {seconds:.3f} s"


@pytest.mark.parametrize("text", [b"[" * MOST_BODY, b'{"request":' + b'{"a":' * 500_000, b'"' + b"\\n" * 1_500_000])
def test_what_is_no_review_costs_no_more(text: bytes) -> None:
    seconds, size, result = cost(text)
    assert (size < 500, seconds <= MOST_SECONDS, result) == (True, True, Result.MALFORMED)


def test_a_pod_of_the_size_that_etcd_takes_is_mutated() -> None:
    scripts = [container(index, args=["x" * 15_000]) for index in range(100)]
    assert cost(posted(pod({"containers": scripts})))[2] is Result.INJECTED


@cases(
    "containers, datasets, sentence",
    (101, 1, "101 containers, and a pod with stoker.dev/datasets may have 100"),
    (26, 20, "26 containers are 520 mounts, and 500 are allowed"),
    (25, 20, "larger than 750 kB"),
)
def test_a_pod_that_would_become_too_large_is_refused_with_the_bound(
    containers: int, datasets: int, sentence: str
) -> None:
    spec = {"containers": [container(index) for index in range(containers)]}
    body = pod(spec, {names.ANNOTATION_DATASETS: annotation(datasets)})
    message = review(posted(body), CATALOG).answer["response"]["status"]["message"]
    assert (sentence in message, len(message) < 200) == (True, True), message


@cases(
    "spec",
    affinity=affine([{"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"] * 40_000}]}]),
    tolerations={"containers": [container()], "tolerations": [{}] * 50_000},
    constraints={"containers": [container()], "topologySpreadConstraints": [{}] * 50_000},
    selector={"containers": [container()], "nodeSelector": {"a": "x" * 140_000}},
)
def test_a_pod_that_would_cost_much_to_place_is_refused(spec: dict[str, Any]) -> None:
    message = review(posted(pod(spec)), CATALOG).answer["response"]["status"]["message"]
    assert "placement bytes, and a pod with stoker.dev/datasets may have 131072" in message


@settings(max_examples=30)
@given(
    kinds=st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 3)),
    datasets=st.integers(1, 20),
    length=st.integers(1, 1580),
    letter=st.sampled_from(["p", "\U0001f600", "\n", '"', "é"]),
    mounts=st.integers(0, 60),
    limited=st.booleans(),
)
def test_containers_times_datasets_times_paths_times_mounts_stay_within_an_answer(
    kinds: tuple[int, int, int], datasets: int, length: int, letter: str, mounts: int, limited: bool
) -> None:
    paths = ",".join(f"d{index}:/{index}{letter * length}" for index in range(datasets))[:32_768]
    there = [{"name": f"v{index}", "mountPath": f"/own/{letter * length}{index}"} for index in range(mounts)]
    lists = ("initContainers", "containers", "ephemeralContainers")
    spec = {
        field: [container(index, volumeMounts=there) for index in range(count)]
        for field, count in zip(lists, kinds, strict=True)
    }
    named = {names.ANNOTATION_CONTAINERS: "c0"} if limited else {}
    body = pod(spec, {names.ANNOTATION_DATASETS: paths} | named)
    answer = review(posted(body), CATALOG, reports=True).answer
    assert len(msgspec.json.encode(answer)) <= MOST_ANSWER
    if "patch" in answer["response"]:
        jsonpatch.apply_patch(body, json.loads(base64.b64decode(answer["response"]["patch"])))
    elif not answer["response"]["allowed"]:
        assert len(answer["response"]["status"]["message"]) < 500


@given(pod=pods())
def test_what_is_skipped_of_a_manifest_decides_nothing(pod: dict[str, Any]) -> None:
    manifest = decode_pod(json.dumps(pod).encode())
    assert not isinstance(manifest, Refusal)
    plain = manifest.plain()
    assert decide_injection(plain, "vision", SOME, reports=True) == decide_injection(pod, "vision", SOME, reports=True)


@pytest.mark.parametrize("length", [1, 40, 160, 780])
def test_what_the_event_loop_works_out_takes_a_few_milliseconds(length: int) -> None:
    named = {names.ANNOTATION_DATASETS: annotation(20, length)}
    count = 1 + 16_384 // len(named[names.ANNOTATION_DATASETS])
    quick = [
        text
        for mounted in (0, 100)
        for number in range(1, min(count, 25) + 1)
        if read_review(text := posted(pod(_many_containers(number, mounted), named))).is_quick
    ]
    assert quick
    assert cost(quick[-1], 0.02)[0] <= 0.02


def _many_containers(count: int, mounted: int) -> dict[str, Any]:
    each = [{"name": "v", "mountPath": f"/m/{index}"} for index in range(mounted // count)]
    return {"containers": [container(index, volumeMounts=each) for index in range(count)]}


def test_a_message_has_no_line_breaks() -> None:
    body = pod({"containers": [container() | {"name": "a\nb\x1b"}]}, {names.ANNOTATION_CONTAINERS: "x"})
    message = review(posted(body), CATALOG).answer["response"]["status"]["message"]
    assert "a b" in message
    assert message.isprintable()
