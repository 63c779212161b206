"""Deadlines of warm-ups on a real API server: what it takes, what nodes are told, and what is said of them."""

from typing import Any

import pytest

from stoker_api.names import ConditionType, Reason
from stoker_kube.errors import Invalid
from stoker_operator.core.conditions import find
from tests.integration.stoker_operator.conftest import World


@pytest.mark.parametrize(
    "deadline",
    [
        {},
        {"at": "2099-01-01T08:00:00Z", "daily": "08:00"},
        {"at": "tomorrow"},
        {"at": "2099-01-01T08:00:00Z", "timeZone": "Europe/Berlin"},
        {"daily": "25:00"},
        {"daily": "08:00", "timeZone": "../../etc"},
    ],
)
async def test_a_deadline_that_is_none_is_refused(world: World, deadline: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=r"warm\.deadline"):
        await world.add_dataset(warm={"deadline": deadline})


async def test_without_a_class_that_allows_it_a_deadline_is_not_followed(world: World) -> None:
    await world.add_dataset(warm={"deadline": {"daily": "08:00", "timeZone": "Europe/Berlin"}})

    dataset = await world.until_dataset(lambda one: find(one.status.conditions, ConditionType.LIMITED) is not None)

    limited = find(dataset.status.conditions, ConditionType.LIMITED)
    assert limited is not None
    assert limited.reason == Reason.LIMITED_BY_CLASS
    assert "warm.deadline is not followed" in limited.message
    assert dataset.status.warm_by is None
