"""What is recommended for a pod that runs: from what its node says of it, and from rules."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache
from stoker_cli import tuning_rows
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.pod_rules import RulesInUse
from stoker_cli.rows import UNKNOWN, order_words
from stoker_cli.tuning_rows import printable
from stoker_tuning.recommend.knobs import TURNED_KNOBS
from stoker_tuning.recommend.recommendation import Explained, recommend
from stoker_tuning.rules.compiled import CompiledRule, compile_rules
from stoker_tuning.rules.facts import AccessFacts, Surroundings, SystemFacts, WorkloadFacts
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.merging import GivenValue, given_values
from stoker_tuning.vocabulary import AccessPattern, ModelFileKind, TrainingPhase


@dataclass(frozen=True)
class PodTuning:
    """A pod as its node tells of it, what rules know of it, and what they lead to for its Datasets as wholes."""

    node: str
    workload: NodeWorkload
    surroundings: Surroundings
    rules: tuple[CompiledRule, ...]
    explained: Explained
    in_use: RulesInUse

    @property
    def not_turned(self) -> list[str]:
        """The knobs that rules give and that nothing turns: they are recommended only."""
        origins = self.explained.origins.items()
        return sorted(knob for knob, each in origins if isinstance(each, GivenValue) and knob not in TURNED_KNOBS)

    def lines(self, *, every: bool) -> Iterator[str]:
        """Say what is known of the pod, what was changed for it, and which rules apply."""
        row, access = self.workload, self.surroundings.access
        known = {
            "phase": row.phase,
            "pattern": access.pattern,
            "items a second": access.items_per_second,
            "framework": row.framework,
            "batch size": row.batch_size,
            "job": row.job,
            "GPUs of its node": self.surroundings.system.gpu_count,
        }
        told = ", ".join(f"{name} {value}" for name, value in known.items() if value not in (None, ""))
        yield printable(f"{row.pod} on {self.node}: {told or 'nothing is known of it yet'}.")
        yield printable(
            f"It reads {', '.join(self.in_use.datasets) or 'nothing that is known'}; by {self.in_use.told}:"
        )
        yield from self.in_use.notes
        if self.not_turned:
            yield f"Recommended only, since nothing turns them: {', '.join(self.not_turned)}."
        if row.tuned:
            gain = UNKNOWN if row.gain_percent is None else f"{row.gain_percent:+d}%"
            yield printable(f"The last change for it: {row.tuned}, {gain} items a second.")
        if row.order:
            yield printable(f"Its order: {order_words(row)}; {row.order_message}.")
        for rule in self.rules:
            score = rule.score(self.surroundings, None)
            if score.applies:
                yield f"{rule.spec.id} applies to all files."
            elif every:
                yield f"{rule.spec.id} does not apply to all files."

    def wire(self) -> dict[str, Any]:
        """Return it as JSON."""
        applying = [rule.spec.id for rule in self.rules if rule.score(self.surroundings, None).applies]
        values = tuning_rows.values_wire(self.explained)
        return {"node": self.node, "workload": self.workload.wire(), "values": values, "rules": applying} | {
            "datasets": list(self.in_use.datasets),
            "rulesOf": self.in_use.told,
            "notes": list(self.in_use.notes),
            "notTurned": self.not_turned,
        }


def find_pod(caches: Iterable[NodeCache], pod: str) -> tuple[NodeCache, NodeWorkload]:
    """Return the node that tells of the pod NAMESPACE/NAME, and its row. Raises CliError where no node does."""
    for cache in caches:
        for row in cache.status.workloads:
            if row.pod == pod:
                return cache, row
    raise CliError(
        f"No node tells of a workload {printable(pod)}: it reads no Dataset, is not one of the ten that its node "
        "follows, or has not begun. A document is explained with a file's PATH behind it.",
        NOT_FOUND,
    )


def pod_tuning(cache: NodeCache, row: NodeWorkload, in_use: RulesInUse, node: SystemFacts) -> PodTuning:
    """Explain what is recommended for a pod's Datasets that have these rules. Raises PatternError.

    ``node``: what is to be taken for granted of the pod's node.
    """
    known = node_facts(cache, row, in_use.datasets, node)
    around, rules = pod_surroundings(row, known), compile_rules(list(in_use.rules))
    applying = FileRules(rules, around).applying_without_file()
    explained = recommend(given_values(rules, applying, None), around)
    return PodTuning(cache.metadata.name, row, around, rules, explained, in_use)


def pod_surroundings(row: NodeWorkload, node: SystemFacts) -> Surroundings:
    """Return what rules know of a pod."""
    namespace, _, name = row.pod.partition("/")
    phase = TrainingPhase(row.phase) if row.phase in set(TrainingPhase) else None
    pattern = AccessPattern(row.pattern) if row.pattern in set(AccessPattern) else None
    kind = ModelFileKind(row.model_kind) if row.model_kind in set(ModelFileKind) else None
    workload = WorkloadFacts(row.framework or None, phase, row.batch_size, row.job or name, namespace, kind)
    return Surroundings(AccessFacts(pattern, row.items_per_second), workload, node)


def node_facts(cache: NodeCache, row: NodeWorkload, datasets: Iterable[str], given: SystemFacts) -> SystemFacts:
    """Return what rules know of a pod's node, as it acts for these Datasets; what is ``given`` goes before that."""
    status, hardware = cache.status, cache.status.hardware
    wanted = set(datasets)
    rates = [one.best_source_bytes_per_second for one in status.datasets if f"{one.namespace}/{one.name}" in wanted]
    measured = min(filter(None, rates), default=hardware.network_bytes_per_second)
    gpus = max((count for count in (hardware.gpus, row.gpus) if count is not None), default=None)
    known = {"memory": hardware.memory_bytes, "gpu_count": gpus, "bandwidth": measured}
    known["disk"] = status.capacity_bytes or None
    return replace(given, **{name: value for name, value in known.items() if getattr(given, name) is None})
