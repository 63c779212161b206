"""A pod that repeatedly opens more silent connections than the agent's limit of open files."""

import logging
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import grpc
import pytest

from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.wire.config.peer_tls import FILE
from tests.fakes.kube import FakeKube
from tests.support import silent_clients
from tests.support.agent_node import DATASET, RunningAgent, agent_node
from tests.support.peers import certify, new_authority
from tests.support.waiting import SECONDS

CONNECTIONS = 2200
PROBES = 5


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Give this process the soft limit that container runtimes set."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def silent_pod(*ports: int) -> Iterator[None]:
    """Run the pod, which reconnects after each refusal."""
    addresses = [f"127.0.0.1:{port}" for port in ports]
    command = [sys.executable, silent_clients.__file__, str(CONNECTIONS), "127.0.0.2", *addresses]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pod:
        try:
            assert pod.stdout is not None
            assert pod.stdout.readline() == "all dialed\n"
            yield
        finally:
            pod.kill()


@pytest.fixture
async def flooded(descriptors: None) -> AsyncIterator[RunningAgent]:
    kube = FakeKube()
    with tempfile.TemporaryDirectory(prefix="sk") as folder:  # short: names of unix sockets have at most 107 characters
        async with agent_node(kube, Path(folder)) as node:
            await node.plan(DATASET)
            await node.until(lambda: "u1" in node.fetcher.configured)
            await certify(node.kube, "node-1", new_authority())
            await node.until(lambda: "address" in node.status and (node.folder / FILE).exists())
            peer_port = int(node.status["address"].rpartition(":")[2])
            with silent_pod(node.http_port, peer_port):
                yield node


async def probe(node: RunningAgent) -> int:
    """Send a request as the kubelet does, on a connection that is closed afterwards."""
    url, patience = f"http://127.0.0.1:{node.http_port}/healthz", aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(timeout=patience) as session, session.get(url) as answer:
        return answer.status


async def test_probes_are_answered_during_a_flood(flooded: RunningAgent) -> None:
    assert [await probe(flooded) for _ in range(PROBES)] == [200] * PROBES


async def test_the_agent_opens_files_during_a_flood(flooded: RunningAgent) -> None:
    await probe(flooded)
    descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY)
    os.close(descriptor)
    assert descriptor < 512


async def test_csi_is_answered_during_a_flood(flooded: RunningAgent) -> None:
    socket = flooded.folder / "kubelet-dir" / "plugins" / "csi.stoker.dev" / "csi.sock"
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(
            "/csi.v1.Identity/GetPluginInfo",
            request_serializer=csi_pb2.GetPluginInfoRequest.SerializeToString,
            response_deserializer=csi_pb2.GetPluginInfoResponse.FromString,
        )
        assert (await call(csi_pb2.GetPluginInfoRequest(), timeout=SECONDS)).name == "csi.stoker.dev"


async def test_a_flood_is_a_log_line_a_port(flooded: RunningAgent, caplog: pytest.LogCaptureFixture) -> None:
    await probe(flooded)
    records = [*caplog.get_records("setup"), *caplog.records]
    ours = [one for one in records if one.name == "stoker_kube.serving.bounded_listener"]
    assert 1 <= len(ours) <= 2
    assert not [one for one in records if one.name == "asyncio" and one.levelno >= logging.ERROR]
