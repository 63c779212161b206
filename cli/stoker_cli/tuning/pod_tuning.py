"""Recommendations for a running pod, from its figures and from rules."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.output import printable
from stoker_cli.rows import UNKNOWN, order_words
from stoker_cli.tuning import rows
from stoker_cli.tuning.effects import RuleEffects, effects_on_node
from stoker_cli.tuning.pod_rules import RulesInUse
from stoker_tuning.documents.named_sets import named_sets
from stoker_tuning.recommend.recommendation import Explained, recommend
from stoker_tuning.rules.compiled import CompiledRule, compile_rules
from stoker_tuning.rules.facts import AccessFacts, Surroundings, SystemFacts, WorkloadFacts
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.merging import given_values
from stoker_tuning.vocabulary import AccessPattern, ModelFileKind, TrainingPhase


@dataclass(frozen=True)
class PodTuning:
    """A pod with its figures, the facts for rules, and the recommendations for its Datasets."""

    node: str
    workload: NodeWorkload
    surroundings: Surroundings
    rules: tuple[CompiledRule, ...]
    explained: Explained
    in_use: RulesInUse
    effects: RuleEffects

    def lines(self, *, every: bool) -> Iterator[str]:
        """Describe the pod, its last change, and the matching rules."""
        row, access = self.workload, self.surroundings.access
        labeled = {
            "phase": row.phase,
            "pattern": access.pattern,
            "items per second": access.items_per_second,
            "framework": row.framework,
            "batch size": row.batch_size,
            "job": row.job,
            "GPUs of its node": self.surroundings.system.gpu_count,
        }
        facts = ", ".join(f"{name} {value}" for name, value in labeled.items() if value not in (None, ""))
        yield printable(f"{row.pod} on {self.node}: {facts or 'no figures yet'}.")
        yield printable(f"Datasets: {', '.join(self.in_use.datasets) or 'unknown'}. By {self.in_use.description}:")
        yield from self.in_use.notes
        if row.tuned:
            gain = UNKNOWN if row.gain_percent is None else f"{row.gain_percent:+d}%"
            yield printable(f"Last change: {row.tuned}, {gain} items per second.")
        if row.order:
            yield printable(f"Order: {order_words(row)}; {row.order_message}.")
        for rule in self.rules:
            score = rule.score(self.surroundings, None)
            if score.applies:
                yield f"{rule.spec.id} applies to all files."
            elif every:
                yield f"{rule.spec.id} does not apply to all files."

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        applying = [rule.spec.id for rule in self.rules if rule.score(self.surroundings, None).applies]
        values = rows.values_wire(self.explained, effects=self.effects)
        return {"node": self.node, "workload": self.workload.wire(), "values": values, "rules": applying} | {
            "datasets": list(self.in_use.datasets),
            "rulesOf": self.in_use.description,
            "notes": list(self.in_use.notes),
        }


def find_pod(caches: Iterable[NodeCache], pod: str) -> tuple[NodeCache, NodeWorkload]:
    """Return the node and the row of the pod NAMESPACE/NAME. Raises CliError if no node reports it."""
    for cache in caches:
        for row in cache.status.workloads:
            if row.pod == pod:
                return cache, row
    raise CliError(
        f"No node reports the pod {printable(pod)}: it reads no Dataset, has not started, or is not among the ten that "
        "its node reports. For a document, add a PATH: stoker tuning explain FILE PATH",
        NOT_FOUND,
    )


def pod_tuning(
    cache: NodeCache, row: NodeWorkload, in_use: RulesInUse, node: SystemFacts, effects: RuleEffects | None = None
) -> PodTuning:
    """Return the recommendations for the Datasets of a pod with these rules. Raises PatternError.

    ``node``: facts about the node that take precedence over the NodeCache. ``effects``: those of the rules; None: those
    that the NodeCache has.
    """
    effects = effects or effects_on_node(cache, row, in_use.profile)
    node_with_defaults = node_facts(cache, row, in_use.datasets, node)
    around, rules = pod_surroundings(row, node_with_defaults), compile_rules(list(in_use.rules))
    applying = FileRules(rules, around).applying_without_file()
    explained = recommend(given_values(rules, applying, None), named_sets())
    return PodTuning(cache.metadata.name, row, around, rules, explained, in_use, effects)


def pod_surroundings(row: NodeWorkload, node: SystemFacts) -> Surroundings:
    """Return the facts for rules about a pod."""
    namespace, _, name = row.pod.partition("/")
    phase = TrainingPhase(row.phase) if row.phase in set(TrainingPhase) else None
    pattern = AccessPattern(row.pattern) if row.pattern in set(AccessPattern) else None
    kind = ModelFileKind(row.model_kind) if row.model_kind in set(ModelFileKind) else None
    workload = WorkloadFacts(row.framework or None, phase, row.batch_size, row.job or name, namespace, kind)
    return Surroundings(AccessFacts(pattern, row.items_per_second), workload, node)


def node_facts(cache: NodeCache, row: NodeWorkload, datasets: Iterable[str], given: SystemFacts) -> SystemFacts:
    """Return the facts for rules about a node and these Datasets. Values in ``given`` take precedence."""
    status, hardware = cache.status, cache.status.hardware
    wanted = set(datasets)
    rates = [held.best_source_bytes_per_second for held in status.datasets if f"{held.namespace}/{held.name}" in wanted]
    measured = min(filter(None, rates), default=hardware.network_bytes_per_second)
    gpus = max((count for count in (hardware.gpus, row.gpus) if count is not None), default=None)
    measured_facts = {"memory": hardware.memory_bytes, "gpu_count": gpus, "bandwidth": measured}
    measured_facts["disk"] = status.capacity_bytes or None
    return replace(given, **{name: value for name, value in measured_facts.items() if getattr(given, name) is None})
