"""Files and Secrets that waste a node's memory and time: readers, agent and fetcher still serve all other tenants.

The canary of another namespace must end its rounds within 20 seconds, and no Stoker container may restart. No agent may
have more than 200 MB in memory at any moment.
"""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from e2e.stories.hostile.test_attacks import CROWD
from e2e.support import manifests
from e2e.support.attacked import AgentMemory, ended, restarts
from e2e.support.tenant import Canary, Tenant, eventually
from e2e.support.world import Home, World, temporary_home

MIB = 1024**2
_EMOJI = '{"😀":['.encode()
OBJECTS = _EMOJI + b"{}," * (8 * MIB // 3 - 8) + b"0]}"
NAMES = (b"{" + b",".join(b'"%x":1' % number for number in range(850_000)))[: 8 * MIB - 1] + b"}"
BOMBS = 10
_MOST_AGENT = 200 * 1000**2  # bytes


@pytest.fixture
def attacker(world: World) -> Iterator[Home]:
    with temporary_home(world, f"bombs-{uuid4().hex[:6]}") as home:
        yield home


@pytest.fixture(autouse=True)
def nobody_notices(world: World, canary: Canary, victim: Home) -> Iterator[None]:
    before = restarts(world), ended(world)
    with AgentMemory() as memory:
        yield
        canary.check()
    trainer = world.get("pod", "trainer", victim.namespace)
    assert all(one["restartCount"] == 0 for one in trainer["status"]["containerStatuses"])
    assert (restarts(world), ended(world)) == before
    print(f"the largest agent had {memory.most / 1000**2:.0f} MB")
    assert 0 < memory.most <= _MOST_AGENT


def test_indexes_that_are_bombs_are_refused_and_their_pods_run(attacker: Home, world: World) -> None:
    bucket = attacker.bucket()
    bucket.put({"objects.json": OBJECTS, "names.json": NAMES, "a.tar": b"x"})
    attacker.dataset("bombs", bucket, cache={"replicas": "all"})
    attacker.ready("bombs")
    for number in range(BOMBS):
        index = ("objects.json", "names.json")[number % 2]
        files = {"layout": "Shards", "path": "" if number < 2 else f"*{number}", "index": index}
        sampling = json.dumps({"seed": number, "files": files})
        command = "sleep 600"
        pod = manifests.pod(attacker.namespace, f"bomb-{number}", "bombs:/data", command, sampling=sampling)
        attacker.apply_pod(pod)
    for number in range(BOMBS):
        world.wait("pod", f"bomb-{number}", attacker.namespace, is_running)
    eventually(lambda: any("has no count for" in one for one in orders(world, attacker)), "the sentence of an index")


def is_running(pod: manifests.Object) -> bool:
    return bool(pod and pod.get("status", {}).get("phase") == "Running")


def orders(world: World, home: Home) -> list[str]:
    """Return the order messages of a namespace's pods."""
    rows = [row for node in world.items("nodecaches") for row in node.get("status", {}).get("workloads", [])]
    return [row.get("orderMessage", "") for row in rows if row["pod"].startswith(f"{home.namespace}/")]


def create_secret(home: Home, name: str, size: int) -> None:
    """Make a Secret with a bundle of ``size`` bytes that is not a certificate."""
    server = home.world.cluster.s3
    made = manifests.secret(home.namespace, server.access_key, server.secret_key, name)
    made["stringData"]["ca.crt"] = ("-----BEGIN CERTIFICATE-----\n" + ("A" * 64 + "\n") * (size // 65 + 1))[:size]
    home.world.kubectl("create", "-f", "-", stdin=json.dumps(made))


def test_a_bundle_beyond_its_bound_is_refused_for_its_dataset(attacker: Home, world: World) -> None:
    create_secret(attacker, "large", 700_000)
    bucket = attacker.bucket()
    source = {"credentials": {"secretRef": {"name": "large"}}}
    attacker.dataset("large", bucket, source=source)
    Tenant(world, attacker.namespace).told("dataset", "large", "ca.crt in Secret")


def test_a_crowd_of_datasets_with_the_largest_bundle_ends_no_fetcher(attacker: Home, world: World) -> None:
    create_secret(attacker, "crowd", 65_536)
    bucket = attacker.bucket()
    bucket.put({"a": b"1"})
    source = {"credentials": {"secretRef": {"name": "crowd"}}}
    for number in range(CROWD):
        attacker.dataset(f"crowd-{number}", bucket, source=source, cache={"replicas": "all"})
    tenant = Tenant(world, attacker.namespace)
    for number in (0, CROWD - 1):
        tenant.told("dataset", f"crowd-{number}", "InvalidCredentials")
