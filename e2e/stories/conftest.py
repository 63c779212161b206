"""One cluster for all stories, with Stoker installed as users install it, and a namespace for each story."""

import fcntl
import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import pytest

from e2e.cluster import Cluster
from e2e.cluster.paths import cache_folder
from e2e.support.world import Home, World, temporary_home

NAME = os.environ.get("STOKER_E2E_CLUSTER", "test")
# They change the chart's values. The last one restores them.
CHANGES_OF_VALUES = (
    "test_dashboard.py",
    "test_sidecar_values.py",
    "test_classes.py",
    "test_order_plugin.py",
    "test_rollback.py",
)
LATE = ("test_upgrade.py", *CHANGES_OF_VALUES)
LAST = ("test_helm.py", "test_tutorial.py")  # they uninstall Stoker


def pytest_configure(config: pytest.Config) -> None:
    """Prevent pytest warnings about the cluster's daemons: they must outlive the call that starts them."""
    config.addinivalue_line("filterwarnings", "ignore:subprocess .* is still running:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run stories that change the chart's values late, then attacks, then the stories that uninstall Stoker.

    The stories before test_ipv6_only.py run while its cluster starts.
    """

    def rank(item: pytest.Item) -> tuple[int, bool, int]:
        name = item.path.name
        hostile = item.path.parent.name == "hostile"
        return LAST.index(name) if name in LAST else -1, hostile, LATE.index(name) if name in LATE else -1

    items.sort(key=rank)


@pytest.fixture(scope="session")
def alone() -> Iterator[None]:
    """Wait until no other run of the stories on this machine has clusters."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "stories.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another run of the stories to end ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def world(alone: None, request: pytest.FixtureRequest) -> Iterator[World]:
    """Start the cluster `test` (the demo uses another name). Stop it at the end unless STOKER_E2E_KEEP is set."""
    with _cluster(Cluster(NAME, print)) as made:
        made.prepare()
        if any(isinstance(item, pytest.Function) and "six" in item.fixturenames for item in request.session.items):
            request.getfixturevalue("six_in_advance")
        yield made
        made.removals.close()


@pytest.fixture(scope="session")
def six_in_advance(alone: None) -> Iterator[Future[World]]:
    """Start the cluster `six`, whose addresses are IPv6 only, while stories of the first cluster run."""

    def prepared(made: World) -> World:
        made.prepare()
        return made

    with _cluster(Cluster("six", print, ipv6=True)) as made, ThreadPoolExecutor(1, "six") as pool:
        yield pool.submit(prepared, made)


@pytest.fixture(scope="session")
def six(world: World, six_in_advance: Future[World]) -> World:
    """Return the second cluster."""
    return six_in_advance.result()


@contextmanager
def _cluster(cluster: Cluster) -> Iterator[World]:
    try:
        yield World(cluster)
    finally:
        if not os.environ.get("STOKER_E2E_KEEP"):
            cluster.down()


@pytest.fixture(autouse=True)
def default_values(world: World, request: pytest.FixtureRequest) -> None:
    """Install the chart's default values if the release has others, unless the story changes them itself."""
    if request.path.name not in CHANGES_OF_VALUES:
        world.helm_defaults()


@pytest.fixture
def home(world: World, request: pytest.FixtureRequest) -> Iterator[Home]:
    """Make a namespace named after the story."""
    with temporary_home(world, _named_after(request.node.name)) as made:
        yield made


@pytest.fixture(scope="module")
def shared_home(world: World, request: pytest.FixtureRequest) -> Iterator[Home]:
    """Make a namespace named after the module, for stories that only read its objects."""
    with temporary_home(world, _named_after(request.path.stem)) as made:
        yield made


def _named_after(story: str) -> str:
    # Namespaces and buckets have at most 63 characters and no underscores, and stories may share a prefix.
    plain = re.sub(r"[^a-z0-9]+", "-", story.lower().removeprefix("test_"))[:40].strip("-")
    return f"{plain}-{uuid4().hex[:6]}"
