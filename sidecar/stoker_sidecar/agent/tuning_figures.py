"""What came of rules on this node, for the status. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from stoker_api.tuning import MOST_TUNING_ROWS, NodeRuleFigures
from stoker_sidecar.tuning.tuner import TuningInForce


def rule_figures(
    in_force: Iterable[TuningInForce], helped: Mapping[tuple[str, str], int]
) -> tuple[NodeRuleFigures, ...]:
    """Return a row for each rule of each profile, summed over versions, of those that apply to most files.

    ``helped``: how often that was found of a rule, by profile and rule.
    """
    matched: Counter[tuple[str, str]] = Counter()
    acted: Counter[tuple[str, str]] = Counter()
    for version in in_force:
        for count in version.rules:
            key = version.choice.profile, count.rule
            matched[key] += count.matched
            acted[key] += count.acted
    first = sorted(matched, key=lambda key: (-matched[key], key))[:MOST_TUNING_ROWS]
    return tuple(
        NodeRuleFigures(profile=key[0], rule=key[1], matched=matched[key], acted=acted[key], helped=helped.get(key, 0))
        for key in first
    )
