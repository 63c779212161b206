"""A tenant who means harm, what a neighbour has that the tenant is after, and a canary that must not notice.

All of it ends with the module: the last story of helm wants to uninstall while no pod reads.
"""

import threading
from collections.abc import Iterator
from uuid import uuid4

import pytest

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.hostilestore import hostile_store
from e2e.support.tenant import Canary, Tenant
from e2e.support.world import STRICT, Home, World


@pytest.fixture(scope="module")
def tenant(world: World) -> Iterator[Tenant]:
    """Give an attacker a namespace, which is deleted at the end with all that is in it."""
    made = Tenant(world, f"evil-{uuid4().hex[:6]}")
    made.prepare()
    yield made
    for kind in ("trainingjobs", "pods", "datasets"):
        world.kubectl("delete", kind, "--all", "-n", made.namespace, "--wait", "--timeout=120s")
    world.kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.fixture(scope="module")
def victim(world: World) -> Iterator[Home]:
    """Give a neighbour a Dataset named ``private``, warm on all nodes, and a pod that reads it all the time."""
    home = Home(world, f"victim-{uuid4().hex[:6]}")
    home.prepare()
    bucket = home.bucket()
    bucket.put(files(20, 10_000))
    home.dataset("private", bucket, cache={"replicas": "all"})
    home.ready("private")
    home.apply_pod(
        manifests.pod(
            home.namespace, "trainer", "private:/data", "while true; do cat /data/*/*; sleep 1; done >/dev/null"
        )
    )
    world.wait("pod", "trainer", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    yield home
    for kind in ("pods", "datasets"):
        world.kubectl("delete", kind, "--all", "-n", home.namespace, "--wait", "--timeout=120s", "--grace-period=1")
    world.kubectl("delete", "namespace", home.namespace, "--wait=false")


@pytest.fixture(scope="module")
def canary(world: World) -> Iterator[Canary]:
    """Run the canary beside all attacks."""
    home = Home(world, f"canary-{uuid4().hex[:6]}")
    home.prepare()
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
    world.kubectl("delete", "datasets", "--all", "-n", home.namespace, "--wait", "--timeout=120s")
    world.kubectl("delete", "namespace", home.namespace, "--wait=false")
    slow = [one for one in made.rounds if one.seconds >= made.slow]
    assert not (slow and STRICT), "\n".join(f"{one.seconds:.1f} s\n{one.story}" for one in slow)


@pytest.fixture(scope="module")
def store(world: World) -> Iterator[str]:
    """Serve an object store that means harm; its URL."""
    with hostile_store(str(world.cluster.slot.host_address)) as url:
        yield url
