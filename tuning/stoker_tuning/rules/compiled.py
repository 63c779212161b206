"""Rules compiled once, and scored: for the workload and the node first, then for each file."""

from dataclasses import dataclass

from stoker_tuning.rules.conditions import CompiledCondition, compile_condition
from stoker_tuning.rules.facts import FileFacts, Surroundings
from stoker_tuning.rules.spec import RuleSpec, by_precedence

# Sums of weights such as 0.1 + 0.2 miss by less than this.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RuleScore:
    """How far a rule applies: the share of the weights that hold, and of each condition whether it does."""

    share: float
    applies: bool
    holds: tuple[bool, ...]


@dataclass(frozen=True)
class CompiledRule:
    """A rule, ready to be asked."""

    spec: RuleSpec
    conditions: tuple[CompiledCondition, ...]
    gates: tuple[CompiledCondition, ...] = ()

    def open_to(self, surroundings: Surroundings) -> bool:
        """Tell whether the rule is for this workload and node at all."""
        return all(gate.holds_around(surroundings) for gate in self.gates)

    @property
    def needed(self) -> float:
        """The weight that has to hold."""
        return self.spec.threshold * sum(each.spec.weight for each in self.conditions) - _ROUNDING

    def score(self, surroundings: Surroundings, file: FileFacts | None) -> RuleScore:
        """Score the rule, for one file or for none; a rule without conditions always applies."""
        holds = tuple(
            each.holds_for(file) if each.of_file else each.holds_around(surroundings) for each in self.conditions
        )
        total = sum(each.spec.weight for each in self.conditions)
        weight = sum(each.spec.weight for each, held in zip(self.conditions, holds, strict=True) if held)
        applies = self.open_to(surroundings) and weight >= self.needed
        return RuleScore(weight / total if total else 1.0, applies, holds)


@dataclass(frozen=True)
class RuleForFiles:
    """What is left of a rule once workload and node are known: file conditions, and the weight still needed."""

    place: int  # in the order in which rules count
    needed: float
    conditions: tuple[CompiledCondition, ...]


def compile_rules(rules: list[RuleSpec]) -> tuple[CompiledRule, ...]:
    """Make rules ready, in the order in which they count. Raises PatternError."""
    return tuple(
        CompiledRule(rule, tuple(map(compile_condition, rule.conditions)), tuple(map(compile_condition, rule.gates)))
        for rule in by_precedence(rules)
    )


def narrowed(rules: tuple[CompiledRule, ...], surroundings: Surroundings) -> tuple[RuleForFiles, ...]:
    """Return the rules that files can still make apply, with what has to hold of a file."""
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
