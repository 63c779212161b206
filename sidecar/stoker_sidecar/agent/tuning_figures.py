"""What came of rules on this node, for the status."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from stoker_api.tuning import MOST_TUNING_ROWS, NodeRuleFigures
from stoker_sidecar.tuning.source import TuningSource
from stoker_sidecar.tuning.tuner import TuningInForce
from stoker_sidecar.volumes.core.publish import VersionKey

_MOST_VERSIONS = 1000  # that are remembered after they were whole


class RuleMemory:
    """What rules came to for versions of this node, also after they are whole and nothing is turned for them any more.

    A small Dataset is whole within a second: without this nobody would see that a rule acted. ``source`` says whose
    rules a Dataset has; those that it had before are forgotten.
    """

    def __init__(self, source: TuningSource) -> None:
        self._source = source
        self._last: dict[VersionKey, TuningInForce] = {}

    def of(self, in_force: Mapping[VersionKey, TuningInForce], here: Collection[str]) -> tuple[TuningInForce, ...]:
        """Return what is and was in force, of the Datasets with these UIDs."""
        for version, now in in_force.items():
            self._last.pop(version, None)
            self._last[version] = now
        for version in tuple(self._last):
            if version not in in_force and not self._stands(version, here):
                del self._last[version]
        while len(self._last) > _MOST_VERSIONS:
            del self._last[next(iter(self._last))]
        return tuple(self._last.values())

    def _stands(self, version: VersionKey, here: Collection[str]) -> bool:
        uid, _ = version
        return uid in here and self._source.choice(uid).profile == self._last[version].choice.profile


def rule_figures(
    in_force: Iterable[TuningInForce], helped: Mapping[tuple[str, str], int]
) -> tuple[NodeRuleFigures, ...]:
    """Return a row for each rule of each profile, summed over versions, of those that apply to most files. Pure.

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
