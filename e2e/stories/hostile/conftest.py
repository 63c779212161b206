"""A malicious tenant, a victim with targets of the attacks, and a canary that must not be affected.

All of it ends with the module.
"""

import threading
from collections.abc import Iterator
from uuid import uuid4

import pytest

from e2e.support import manifests
from e2e.support.attacked import restarts
from e2e.support.bucket import files
from e2e.support.hostilestore import hostile_store
from e2e.support.tenant import Canary, Tenant
from e2e.support.world import STRICT, SYSTEM, Home, World, temporary_home


@pytest.fixture(scope="module")
def tenant(world: World) -> Iterator[Tenant]:
    """Give an attacker a namespace. Delete it with its content at the end."""
    made = Tenant(world, f"evil-{uuid4().hex[:6]}")
    made.prepare()
    yield made
    world.removals.begin(made.namespace)


@pytest.fixture(scope="module")
def victim(world: World) -> Iterator[Home]:
    """Give the victim a Dataset named ``private``, warm on all nodes, and a pod that reads it all the time."""
    with temporary_home(world, f"victim-{uuid4().hex[:6]}") as home:
        bucket = home.bucket()
        bucket.put(files(20, 10_000))
        home.dataset("private", bucket, cache={"replicas": "all"})
        home.ready("private")
        read = "while true; do cat /data/*/*; sleep 1; done >/dev/null"
        home.apply_pod(manifests.pod(home.namespace, "trainer", "private:/data", read))
        world.wait("pod", "trainer", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
        yield home


@pytest.fixture(scope="module")
def canary(world: World) -> Iterator[Canary]:
    """Run the canary during all attacks."""
    with temporary_home(world, f"canary-{uuid4().hex[:6]}") as home:
        bucket = home.bucket()
        bucket.put(files(20, 10_000))
        made = Canary(home, bucket)
        thread = threading.Thread(target=made.run, name="canary")
        thread.start()
        yield made
        made.stop()
        thread.join()
    took = sorted(one.seconds for one in made.rounds)
    print(f"the canary made {len(took)} rounds: median {took[len(took) // 2]:.1f} s, slowest {took[-1]:.1f} s")
    slow = [one for one in made.rounds if one.seconds >= made.slow]
    assert not (slow and STRICT), "\n".join(f"{one.seconds:.1f} s\n{one.story}" for one in slow)


@pytest.fixture(scope="module", autouse=True)
def nothing_of_stokers_restarts(world: World) -> Iterator[None]:
    """Compare the restarts of Stoker's own pods before and after all attacks of a module."""
    world.helm_defaults()  # an earlier story may have changed the values, and a rollout replaces pods
    before = restarts(world)
    yield
    after = restarts(world)
    ended = [pod for pod in before if after.get(pod, before[pod]) != before[pod]]
    logs = [f"{pod}:\n" + world.kubectl("logs", pod, "-n", SYSTEM, "--previous", "--tail=20") for pod in ended]
    assert after == before, "\n".join(logs)


@pytest.fixture(scope="module")
def store(world: World) -> Iterator[str]:
    """Serve a malicious object store. Yield its URL."""
    with hostile_store(str(world.cluster.slot.host_address)) as url:
        yield url
