"""Deadlines of warm-ups on a real API server: accepted values, plans of nodes, and status."""

from stoker_api.names import ConditionType, Reason
from stoker_operator.core.views.conditions import find
from tests.integration.stoker_operator.conftest import World


async def test_without_a_class_that_allows_it_a_deadline_is_not_followed(world: World) -> None:
    await world.add_dataset(warm={"deadline": {"daily": "08:00", "timeZone": "Europe/Berlin"}})

    dataset = await world.until_dataset(lambda one: find(one.status.conditions, ConditionType.LIMITED) is not None)

    limited = find(dataset.status.conditions, ConditionType.LIMITED)
    assert limited is not None
    assert limited.reason == Reason.LIMITED_BY_CLASS
    assert "warm.deadline is ignored" in limited.message
    assert dataset.status.warm_by is None
