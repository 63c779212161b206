"""The cluster that most tests of this folder begin with."""

import pytest

from tests.unit.stoker_operator.world import World


@pytest.fixture
def world() -> World:
    """Make an operator with an in-memory API server and node a; a file that needs another one has its own."""
    made = World()
    made.add_node("a")
    return made
