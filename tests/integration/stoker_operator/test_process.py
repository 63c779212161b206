"""The operator's processes: two replicas, one Lease, the webhook, signals."""

import asyncio
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stoker_kube.resources import LEASES
from tests.integration.stoker_operator.conftest import SECONDS
from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually_async

PROGRAM = Path(sys.executable).parent / "stoker-operator"
STOP_SECONDS = 10.0  # seconds that the operator promises
RSS_LIMIT = 150 * 2**20  # bytes; the bar of the issue
WEBHOOK_RSS_LIMIT = 100 * 2**20  # bytes


class Replica:
    """One process of the operator."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, name: str) -> None:
        self.process = process
        self.port = port
        self.name = name

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=SECONDS) as answer:
            return str(answer.read().decode())

    async def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), STOP_SECONDS)

    def rss(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


Start = Callable[..., Awaitable[Replica]]


@pytest.fixture
async def start(apiserver: ApiServer, namespace: str, unused_tcp_port_factory: Any) -> AsyncIterator[Start]:
    """Start replicas in one namespace. Running ones are killed at the end."""
    started: list[Replica] = []

    async def one(name: str, command: str = "run") -> Replica:
        port, webhook = unused_tcp_port_factory(), unused_tcp_port_factory()
        environment = {"KUBECONFIG": str(apiserver.kubeconfig), "POD_NAMESPACE": namespace, "POD_NAME": name}
        environment |= {"STOKER_HOST": "127.0.0.1", "STOKER_HTTP_PORT": str(port), "STOKER_WEBHOOK_PORT": str(webhook)}
        environment |= {"STOKER_FIGURES_PORT": "0"}
        process = await asyncio.create_subprocess_exec(PROGRAM, command, env=os.environ | environment)
        replica = Replica(process, port, name)
        started.append(replica)
        return replica

    yield one
    for replica in started:
        if replica.process.returncode is None:
            replica.process.kill()
            await replica.process.wait()


async def until_ready(replica: Replica) -> None:
    async def look() -> bool | None:
        try:
            return await asyncio.to_thread(replica.get, "/readyz") == "ok" or None
        except OSError:
            return None

    await eventually_async(look, SECONDS)


async def until_held_by(apiserver: ApiServer, namespace: str, name: str) -> None:
    async with await apiserver.client() as kube:

        async def look() -> bool | None:
            leases = (await kube.list(LEASES, namespace)).items
            return any(lease["spec"].get("holderIdentity") == name for lease in leases) or None

        await eventually_async(look, SECONDS)


async def test_the_standby_is_ready_and_takes_over_at_once_when_the_leader_stops(
    apiserver: ApiServer, namespace: str, start: Start
) -> None:
    first = await start("first")
    await until_held_by(apiserver, namespace, "first")
    second = await start("second")
    await until_ready(first)
    await until_ready(second)
    assert "stoker_leader 0.0" in second.get("/metrics")
    assert first.rss() < RSS_LIMIT
    assert await first.stop() == 0
    begun = asyncio.get_running_loop().time()
    await until_held_by(apiserver, namespace, "second")
    assert asyncio.get_running_loop().time() - begun < 5  # far less than the Lease's 15 seconds
    assert await second.stop() == 0


async def test_a_replica_whose_lease_was_taken_ends_with_an_error(
    apiserver: ApiServer, namespace: str, start: Start
) -> None:
    replica = await start("first")
    await until_held_by(apiserver, namespace, "first")
    async with await apiserver.client() as kube:
        await kube.patch(LEASES, "stoker-operator", {"spec": {"holderIdentity": "thief"}}, namespace)
    assert await asyncio.wait_for(replica.process.wait(), STOP_SECONDS) == 1


async def test_the_webhook_is_ready_without_a_lease_and_ends_on_a_signal(
    apiserver: ApiServer, namespace: str, start: Start
) -> None:
    webhook = await start("first", "webhook")
    await until_ready(webhook)
    assert "stoker_webhook_requests_total" in webhook.get("/metrics")
    assert "stoker_leader" not in webhook.get("/metrics")
    assert webhook.rss() < WEBHOOK_RSS_LIMIT
    async with await apiserver.client() as kube:
        assert not (await kube.list(LEASES, namespace)).items
    assert await webhook.stop() == 0
