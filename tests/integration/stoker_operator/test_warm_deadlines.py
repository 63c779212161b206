"""Deadlines of warm-ups on a real API server: what it takes, what nodes are told, and what is said of them."""

from typing import Any

import pytest

from stoker_api.names import ConditionType, Reason
from stoker_kube.errors import Invalid
from stoker_operator.core.conditions import find
from tests.integration.stoker_operator.conftest import World


@pytest.mark.parametrize(
    ("deadline", "sentence"),
    [
        ({}, "takes one of at and daily"),
        ({"at": "2099-01-01T08:00:00Z", "daily": "08:00"}, "takes one of at and daily"),
        ({"at": "tomorrow"}, "must be of type date-time"),
        ({"at": "2099-01-01T08:00:00Z", "timeZone": "Europe/Berlin"}, "timeZone is for daily"),
        ({"daily": "25:00"}, "25:00 is not a time of day: write for example 08:00"),
        (
            {"daily": "08:00", "timeZone": "../../etc"},
            "is not the name of a time zone: write for example Europe",
        ),
    ],
)
async def test_a_deadline_that_is_none_is_refused_with_a_sentence(
    world: World, deadline: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Invalid, match=rf"warm\.deadline.*{sentence}"):
        await world.add_dataset(warm={"deadline": deadline})


async def test_without_a_class_that_allows_it_a_deadline_is_not_followed(world: World) -> None:
    await world.add_dataset(warm={"deadline": {"daily": "08:00", "timeZone": "Europe/Berlin"}})

    dataset = await world.until_dataset(lambda one: find(one.status.conditions, ConditionType.LIMITED) is not None)

    limited = find(dataset.status.conditions, ConditionType.LIMITED)
    assert limited is not None
    assert limited.reason == Reason.LIMITED_BY_CLASS
    assert "warm.deadline is not followed" in limited.message
    assert dataset.status.warm_by is None
