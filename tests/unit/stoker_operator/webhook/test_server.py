"""The webhook over real TLS on loopback."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from stoker_api import names
from stoker_kube.errors import Unavailable
from stoker_kube.resources import DATASETS
from stoker_operator.core.views.catalog import Catalog, CatalogEntry
from stoker_operator.errors import MalformedReviewError
from stoker_operator.webhook import server
from stoker_operator.webhook.certs import KeyMaterial, make
from stoker_operator.webhook.late_datasets import LateDatasets
from stoker_operator.webhook.review import Review, decide, review
from stoker_operator.webhook.review_request import ReviewRequest
from stoker_operator.webhook.rotation import load_certificate, new_tls_context
from stoker_operator.webhook.server import REQUESTS, WebhookServer, namespace_in
from tests.fakes.kube import FakeKube
from tests.support.waiting import eventually


class Running:
    """A server on a free port, and a client with the given trust."""

    def __init__(self) -> None:
        self.catalog: Catalog | None = {"vision/imagenet": CatalogEntry("vision", "imagenet")}
        self.tls = new_tls_context()
        self.material = make(("127.0.0.1",), datetime.now(UTC))
        load_certificate(self.tls, self.material.certificate, self.material.key)
        self.kube = FakeKube()
        find = LateDatasets(self.kube).find
        self.server = WebhookServer(
            lambda: self.catalog, find, self.tls, "127.0.0.1", 0, is_called_by=self.is_called_by
        )

    async def is_called_by(self, path: str) -> bool:
        return path == "/mutate/secret"

    async def post(
        self, body: Any, trusted: KeyMaterial | None = None, path: str = "/mutate/secret"
    ) -> tuple[int, Any]:
        context = ssl.create_default_context(cadata=(trusted or self.material).authorities.decode())
        url = f"https://127.0.0.1:{self.server.port}{path}"
        async with aiohttp.ClientSession() as session, session.post(url, json=body, ssl=context) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    one = Running()
    await one.server.start()
    yield one
    await one.server.stop()


def make_review(datasets: str) -> dict[str, Any]:
    metadata = {"annotations": {names.ANNOTATION_DATASETS: datasets}}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "main"}]}}
    return {"request": {"uid": "u-1", "namespace": "vision", "object": pod}}


def count(result: str) -> float:
    return float(REQUESTS.labels(result)._value.get())


async def test_a_review_is_answered_over_tls(running: Running) -> None:
    status, answer = await running.post(make_review("imagenet:/data"))
    assert (status, answer["response"]["allowed"]) == (200, True)


async def test_a_dataset_of_which_no_watch_told_yet_is_found(running: Running) -> None:
    meta = {"name": "late", "namespace": "vision"}
    await running.kube.create(DATASETS, {"metadata": meta, "spec": {"source": {"uri": "s3://bucket/"}}})
    _, answer = await running.post(make_review("late:/late, imagenet:/data"))
    assert answer["response"]["allowed"]


@pytest.mark.expected_logs("could not be looked up")
async def test_a_look_that_fails_leaves_the_refusal(running: Running) -> None:
    running.kube.outage = Unavailable(503, "Down", "down")
    _, answer = await running.post(make_review("late:/late"))
    assert "does not exist" in answer["response"]["status"]["message"]


async def test_requests_are_counted_by_result(running: Running) -> None:
    before = count("refused")
    await running.post(make_review("unknown:/data"))
    assert count("refused") == before + 1


async def test_before_the_datasets_are_known_it_says_so_with_503(running: Running) -> None:
    running.catalog = None
    status, text = await running.post(make_review("imagenet:/data"))
    assert (status, "try again" in text) == (503, True)


async def test_what_is_no_review_is_a_bad_request(running: Running) -> None:
    status, text = await running.post({"hello": 1})
    assert (status, "AdmissionReview" in text) == (400, True)


async def test_a_certificate_loaded_while_serving_counts_for_new_connections(running: Running) -> None:
    fresh = make(("127.0.0.1",), datetime.now(UTC))
    load_certificate(running.tls, fresh.certificate, fresh.key)
    status, _ = await running.post(make_review("imagenet:/data"), trusted=fresh)
    assert status == 200


@pytest.mark.parametrize("path", ["/", "/mutate", "/mutate/", "/mutate/secre", "/mutate/secret/"])
@pytest.mark.parametrize("dataset", ["imagenet:/data", "unknown:/data"])
async def test_who_does_not_call_by_the_secret_path_is_told_nothing(running: Running, path: str, dataset: str) -> None:
    before = count("stranger")
    assert await running.post(make_review(dataset), path=path) == (404, "")
    assert count("stranger") == before + 1


async def test_a_stranger_is_refused_before_the_body_came(running: Running) -> None:
    context = ssl.create_default_context(cadata=running.material.authorities.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port, ssl=context)
    writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n{")
    async with asyncio.timeout(30):
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
    writer.close()


@pytest.mark.parametrize(("size", "aside"), [(0, False), (server.SMALL, True)])
async def test_a_large_review_is_no_work_of_the_loop(
    running: Running, monkeypatch: pytest.MonkeyPatch, size: int, aside: bool
) -> None:
    threads: list[str] = []

    def told(*arguments: Any, **options: Any) -> Review:
        threads.append(threading.current_thread().name)
        return decide(*arguments, **options)

    monkeypatch.setattr(server, "decide", told)
    await running.post(make_review("imagenet:/data") | {"more": "x" * size})
    assert [name == "review_0" for name in threads] == [aside]


def test_what_is_nested_too_deep_is_no_review() -> None:
    with pytest.raises(MalformedReviewError):
        review(b'{"request": ' + b"[" * 100_000, {})


async def test_a_review_that_is_too_large_is_refused_with_413(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_BODY", 2 * server.SMALL)
    status, _ = await running.post({"more": "x" * server.MOST_BODY})
    assert status == 413


async def test_large_reviews_of_one_namespace_delay_no_small_one_and_one_large_one_of_another(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, asked, go_on = list[str](), list[str](), threading.Event()

    def waiting(request: ReviewRequest, *arguments: Any, **options: Any) -> Review:
        order.append(request.namespace)
        if threading.current_thread() is not threading.main_thread():
            go_on.wait(30)
        return decide(request, *arguments, **options)

    def noted(head: bytes) -> str:
        asked.append(namespace_in(head))
        return asked[-1]

    def large(namespace: str) -> dict[str, Any]:
        request = make_review("vision/imagenet:/data")["request"] | {"namespace": namespace}
        return {"request": {"namespace": namespace} | request | {"more": "x" * server.SMALL}}

    monkeypatch.setattr(server, "decide", waiting)
    monkeypatch.setattr(server, "namespace_in", noted)
    async with asyncio.TaskGroup() as group, asyncio.timeout(30):
        for _ in range(30):
            group.create_task(running.post(large("evil")))
        await eventually(lambda: len(asked) == 30)
        late = group.create_task(running.post(large("victim")))
        status, _ = await running.post(make_review("imagenet:/data"))  # a small review, while the thread is busy
        await eventually(lambda: len(asked) == 31)
        go_on.set()
        await late
    assert (status, order.index("victim") <= 2 * server.AT_ONCE) == (200, True)


async def test_a_small_review_with_much_work_is_no_work_of_the_loop(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def told(*arguments: Any, **options: Any) -> Review:
        threads.append(threading.current_thread().name)
        return decide(*arguments, **options)

    monkeypatch.setattr(server, "decide", told)
    asked = make_review("imagenet:/" + "p" * 1000)
    asked["request"]["object"]["spec"]["containers"] = [{"name": f"c{index}"} for index in range(100)]
    await running.post(asked)
    assert threads == ["review_0"]
