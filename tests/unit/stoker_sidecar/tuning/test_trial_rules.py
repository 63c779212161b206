"""The prefetch knobs of a rule that experiments turn on and off."""

from stoker_sidecar.tuning.core.trial_rules import AheadValue, ahead_value
from stoker_tuning.rules.spec import ActionSpec, KnobValue, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ActionType, RuleLayer
from tests.support.cases import cases


@cases(
    "given, value",
    ({"should_cache": False}, None),
    ({"prefetch_depth": 3}, AheadValue("prefetch_depth", 3)),
    ({"level": "Maximum", "prefetch_size": 4}, AheadValue("prefetch_size", "4 with level Maximum")),
    ({"level": "Basic"}, None),
    ({"level": "Basic", "prefetch_depth": 3}, None),
)
def test_a_rule_is_tested_by_its_strongest_prefetch_knob(given: dict[str, KnobValue], value: AheadValue | None) -> None:
    action = ActionSpec(ActionType.PREFETCH, ActionTarget.FILE, given)
    assert ahead_value(RuleSpec("a", RuleOrigin("d", RuleLayer.CUSTOM), (), (action,))) == value
