"""The measured effects of tuning rules, from a node's figures or the history of a mount. Pure."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_tuning.learning.changes import ChangeVerdict

UNMEASURED = "not measured yet"
_WORDS = {ChangeVerdict.HELPED: "helped", ChangeVerdict.NEUTRAL: "no effect", ChangeVerdict.HURT: "hurt"}
_LEAST, _MOST = -100, 1000  # percent, as in a NodeCache
# The end of a workload's last change, as nodes write it: the verdict and the rule.
_LAST = re.compile(r": (helped|neutral|hurt)(?:, taken back)? \(([^()]{1,200})\)")


@dataclass(frozen=True)
class RuleEffect:
    """The effect of one rule. ``verdict`` and ``gain_percent`` (of items per second) are of its last known trial.

    ``helped``: number of Datasets or trials that it helped. ``trials``: number of trials. None: unknown.
    """

    verdict: ChangeVerdict
    gain_percent: int | None = None
    helped: int | None = None
    trials: int | None = None

    def words(self) -> str:
        """Describe it in a table's cell."""
        gain = "" if self.gain_percent is None else f", {self.gain_percent:+d} % items/s"
        counted = ""
        if self.trials is not None:
            counted = f", helped in {self.helped or 0} of {self.trials} {'trial' if self.trials == 1 else 'trials'}"
        elif self.helped:
            counted = f", {self.helped} {'Dataset' if self.helped == 1 else 'Datasets'} of this node"
        return f"{_WORDS[self.verdict]}{gain}{counted}"

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        counts = {"helped": self.helped, "trials": self.trials}
        return {"verdict": self.verdict.value, "gainPercent": self.gain_percent} | counts


@dataclass(frozen=True)
class RuleEffects:
    """The effects of rules by id. A rule without one was not measured."""

    by_rule: Mapping[str, RuleEffect]

    def words(self, rule: str) -> str:
        """Describe the effect of a rule."""
        effect = self.by_rule.get(rule)
        return UNMEASURED if effect is None else effect.words()

    def wire(self, rule: str) -> dict[str, Any] | None:
        """Return the effect of a rule as JSON. None: not measured yet."""
        effect = self.by_rule.get(rule)
        return None if effect is None else effect.wire()


def effects_on_node(cache: NodeCache, row: NodeWorkload, profile: str) -> RuleEffects:
    """Return the effects that a node reports: its counts for a profile, and the last change of the workload."""
    helped = {each.rule: each.helped for each in cache.status.tuning if each.profile == profile and each.helped > 0}
    effects = {rule: RuleEffect(ChangeVerdict.HELPED, helped=count) for rule, count in helped.items()}
    last = _LAST.search(row.tuned)
    if last is not None and last.end() == len(row.tuned):
        verdict, rule = ChangeVerdict(last[1]), last[2]
        effects[rule] = RuleEffect(verdict, row.gain_percent, helped.get(rule))
    return RuleEffects(effects)


def effects_in_history(rows: Iterable[Mapping[str, Any]]) -> RuleEffects:
    """Return the effects of all trials in a history, newest first. Rows of another format are left out."""
    trials: dict[str, list[tuple[ChangeVerdict, float]]] = {}
    for row in rows:
        if (trial := _trial(row)) is not None:
            rule, verdict, gain = trial
            trials.setdefault(rule, []).append((verdict, gain))
    return RuleEffects({rule: _of_trials(each) for rule, each in trials.items()})


def _trial(row: Mapping[str, Any]) -> tuple[str, ChangeVerdict, float] | None:
    """Return the rule, the verdict and the gain of a row of the history."""
    try:
        rule, verdict, gain = str(row["change"]["origin"]), ChangeVerdict(row["verdict"]), float(row["gain"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return (rule, verdict, gain) if math.isfinite(gain) else None


def _of_trials(trials: list[tuple[ChangeVerdict, float]]) -> RuleEffect:
    gain = max(_LEAST, min(_MOST, round(100 * median(gain for _, gain in trials))))
    helped = sum(verdict is ChangeVerdict.HELPED for verdict, _ in trials)
    return RuleEffect(trials[0][0], gain, helped, len(trials))
