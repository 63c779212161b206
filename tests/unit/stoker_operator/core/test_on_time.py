"""Whether a Dataset is warm by its deadline."""

from typing import Any

from stoker_api.meta import Condition
from stoker_api.names import ConditionType
from stoker_api.times import format_time, parse_time
from stoker_operator.core.plans.on_time import WarmOutlook, due_time, set_on_time
from stoker_operator.core.views.conditions import ConditionSet
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import make_dataset

NOW = parse_time("2026-11-23T12:00:00Z")
DUE = NOW + 3600


def verdict(progress: WarmOutlook, due: float | None = DUE, before: str = "") -> tuple[str, str] | None:
    out = ConditionSet((), 1, NOW)
    old = [Condition(type="OnTime", status="False", reason=before, last_transition_time=format_time(NOW))]
    set_on_time(out, old if before else [], due, progress, NOW)
    found = [one for one in out.result() if one.type == ConditionType.ON_TIME]
    return (found[0].status, found[0].reason) if found else None


@cases(
    "progress, expected",
    (WarmOutlook(done=True, paused=False), ("True", "Warm")),
    (WarmOutlook(done=False, paused=True), ("False", "Paused")),
    (WarmOutlook(done=False, paused=False), ("Unknown", "RateUnknown")),
    (WarmOutlook(done=False, paused=False, eta=3600), ("True", "OnTime")),
    (WarmOutlook(done=False, paused=False, eta=3601), ("False", "DeadlineAtRisk")),
    (WarmOutlook(done=False, paused=False, eta=3601, forecast=1), ("False", "DeadlineAtRisk")),
    (WarmOutlook(done=False, paused=False, forecast=1), ("True", "OnTime")),
    (WarmOutlook(done=False, paused=False, eta=1, homeless=1), ("False", "DeadlineAtRisk")),
)
def test_measured_rates_come_before_the_forecast(progress: WarmOutlook, expected: tuple[str, str]) -> None:
    assert verdict(progress) == expected


def test_nothing_is_said_without_a_deadline() -> None:
    assert verdict(WarmOutlook(done=False, paused=False), due=None) is None


def test_a_deadline_that_has_passed_is_missed() -> None:
    assert verdict(WarmOutlook(done=False, paused=False, eta=1), due=NOW) == ("False", "DeadlineMissed")


def test_who_was_late_counts_as_on_time_again_with_some_room() -> None:
    barely, clearly = (WarmOutlook(done=False, paused=False, eta=eta) for eta in (3500, 3200))

    assert verdict(barely, before="DeadlineAtRisk") == ("False", "DeadlineAtRisk")
    assert verdict(clearly, before="DeadlineAtRisk") == ("True", "OnTime")


def status(warm: bool, by: str = "2026-11-23T08:00:00Z") -> dict[str, Any]:
    condition = {"type": "Warm", "status": str(warm), "reason": "x", "lastTransitionTime": format_time(NOW)}
    return {"warmBy": by, "observedGeneration": 1, "conditions": [condition]}


DAILY = {"daily": "08:00"}
MISSED, TOMORROW = "2026-11-23T08:00:00Z", "2026-11-24T08:00:00Z"


@cases(
    "deadline, meta, due",
    daily_the_next_one_in_its_zone=(DAILY | {"timeZone": "Europe/Berlin"}, {}, "2026-11-24T07:00:00Z"),
    daily_the_missed_one_until_it_is_warm=(DAILY, {"status": status(warm=False)}, MISSED),
    daily_the_next_one_once_it_is_warm=(DAILY, {"status": status(warm=True)}, TOMORROW),
    daily_the_next_one_of_another_spec=(DAILY, {"status": status(warm=False), "generation": 2}, TOMORROW),
    daily_the_next_one_where_the_clock_was_ahead=(
        DAILY,
        {"status": status(warm=False, by="2031-01-01T08:00:00Z")},
        TOMORROW,
    ),
    one_time_for_ever=({"at": "2026-11-23T08:00:00+01:00"}, {"status": status(warm=True)}, "2026-11-23T07:00:00Z"),
)
def test_it_is_due(deadline: dict[str, str], meta: dict[str, Any], due: str) -> None:
    assert due_time(make_dataset(warm={"deadline": deadline}, **meta), NOW) == parse_time(due)
