"""One cluster for all stories, with Stoker installed as a user installs it; a namespace for each story."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from e2e.cluster import Cluster
from e2e.cluster.paths import cache_folder
from e2e.support.world import Home, World, temporary_home


def pytest_configure(config: pytest.Config) -> None:
    """Keep pytest quiet about the cluster's daemons: they are meant to outlive the call that starts them."""
    config.addinivalue_line("filterwarnings", "ignore:subprocess .* is still running:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the stories of helm after all others: the last of them uninstalls what the others use. Attacks before them.

    A round of the attacks' canary is timed, and whatever runs beside the stories ends before they do.
    """
    items.sort(key=lambda item: (item.path.name == "test_helm.py", item.path.parent.name == "hostile"))


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """Start the cluster `test` (the demo has another); take it down at the end unless STOKER_E2E_KEEP is set."""
    cluster = Cluster("test", print)
    made = World(cluster)
    with _alone():
        try:
            made.prepare()
            yield made
            made.removals.close()
        finally:
            if not os.environ.get("STOKER_E2E_KEEP"):
                cluster.down()


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other run of the stories on this machine has the cluster `test`."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "stories.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another run of the stories to end ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def home(world: World, request: pytest.FixtureRequest) -> Iterator[Home]:
    """Make a namespace named after the story."""
    with temporary_home(world, _named_after(request.node.name)) as made:
        yield made


@pytest.fixture(scope="module")
def shared_home(world: World, request: pytest.FixtureRequest) -> Iterator[Home]:
    """Make a namespace named after the module, for stories that only look at what is in it."""
    with temporary_home(world, _named_after(request.path.stem)) as made:
        yield made


def _named_after(story: str) -> str:
    # Namespaces and buckets have at most 63 characters and no underscores; stories may begin alike.
    plain = re.sub(r"[^a-z0-9]+", "-", story.lower().removeprefix("test_"))[:40].strip("-")
    return f"{plain}-{uuid4().hex[:6]}"
