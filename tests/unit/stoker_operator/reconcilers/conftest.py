"""The default cluster of the tests in this folder."""

import pytest

from tests.unit.stoker_operator.world import World


@pytest.fixture
def world() -> World:
    """Make an operator with an in-memory API server and node a. Files can override this fixture."""
    made = World()
    made.add_node("a")
    return made
