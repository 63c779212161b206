"""Compiled rules, scored for the workload and the node first, then for each file."""

from dataclasses import dataclass

from stoker_tuning.rules.conditions import CompiledCondition, compile_condition
from stoker_tuning.rules.facts import FileFacts, Surroundings
from stoker_tuning.rules.spec import RuleSpec, by_precedence

# The error of sums such as 0.1 + 0.2 is smaller.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RuleScore:
    """The score of a rule: the share of the weights of true conditions, and the result of each condition."""

    share: float
    applies: bool
    holds: tuple[bool, ...]


@dataclass(frozen=True)
class CompiledRule:
    """A compiled rule."""

    spec: RuleSpec
    conditions: tuple[CompiledCondition, ...]
    gates: tuple[CompiledCondition, ...] = ()

    def open_to(self, surroundings: Surroundings) -> bool:
        """Return True if all gates of the rule are true for this workload and node."""
        return all(gate.holds_around(surroundings) for gate in self.gates)

    @property
    def needed(self) -> float:
        """The weight of true conditions that the rule needs."""
        return self.spec.threshold * sum(each.spec.weight for each in self.conditions) - _ROUNDING

    def score(self, surroundings: Surroundings, file: FileFacts | None) -> RuleScore:
        """Score the rule for a file, or without a file. A rule without conditions always applies."""
        holds = tuple(
            each.holds_for(file) if each.of_file else each.holds_around(surroundings) for each in self.conditions
        )
        total = sum(each.spec.weight for each in self.conditions)
        weight = sum(each.spec.weight for each, held in zip(self.conditions, holds, strict=True) if held)
        applies = self.open_to(surroundings) and weight >= self.needed
        return RuleScore(weight / total if total else 1.0, applies, holds)


@dataclass(frozen=True)
class RuleForFiles:
    """The file conditions of a rule for one workload and node, and the weight that they must reach."""

    place: int  # by precedence
    needed: float
    conditions: tuple[CompiledCondition, ...]


def compile_rules(rules: list[RuleSpec]) -> tuple[CompiledRule, ...]:
    """Compile rules and sort them by precedence. Raises PatternError."""
    return tuple(
        CompiledRule(rule, tuple(map(compile_condition, rule.conditions)), tuple(map(compile_condition, rule.gates)))
        for rule in by_precedence(rules)
    )


def narrowed(rules: tuple[CompiledRule, ...], surroundings: Surroundings) -> tuple[RuleForFiles, ...]:
    """Return the rules that can apply to a file of this workload, with their file conditions."""
    found = []
    for place, rule in enumerate(rules):
        if not rule.open_to(surroundings):
            continue
        around = [each for each in rule.conditions if not each.of_file]
        of_file = tuple(each for each in rule.conditions if each.of_file)
        needed = rule.needed - sum(each.spec.weight for each in around if each.holds_around(surroundings))
        if sum(each.spec.weight for each in of_file) >= needed:
            found.append(RuleForFiles(place, needed, of_file))
    return tuple(found)
