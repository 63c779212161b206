"""A tenant who means harm, what a neighbour has that the tenant is after, and a canary that must not notice.

All of it ends with the module.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.cluster.processes import wait_for
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.hostilestore import hostile_store
from e2e.support.tenant import Canary, Tenant
from e2e.support.world import STRICT, Home, World, temporary_home

_BESIDE = 800.0  # seconds, of the 900 that a story may take: what else runs takes about as long as the stories before


@pytest.fixture(scope="module")
def tenant(world: World) -> Iterator[Tenant]:
    """Give an attacker a namespace, which is deleted at the end with all that is in it."""
    made = Tenant(world, f"evil-{uuid4().hex[:6]}")
    made.prepare()
    yield made
    world.removals.begin(made.namespace)


@pytest.fixture(scope="module")
def victim(world: World) -> Iterator[Home]:
    """Give a neighbour a Dataset named ``private``, warm on all nodes, and a pod that reads it all the time."""
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
def others_ended() -> None:
    """Wait until no other stage of the tests runs beside the stories: the canary's rounds are timed."""
    running = os.environ.get("STOKER_OTHERS_RUN", "")  # set by tests/run.py
    wait_for("the tests beside the stories to end", lambda: not (running and Path(running).exists()), _BESIDE)


@pytest.fixture(scope="module")
def canary(world: World, others_ended: None) -> Iterator[Canary]:
    """Run the canary beside all attacks."""
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


@pytest.fixture(scope="module")
def store(world: World) -> Iterator[str]:
    """Serve an object store that means harm; its URL."""
    with hostile_store(str(world.cluster.slot.host_address)) as url:
        yield url
