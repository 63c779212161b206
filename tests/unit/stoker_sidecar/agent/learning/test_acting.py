"""The subjects of tuning on a node: incomplete versions, and the activity of pods that have them mounted."""

import json
from collections.abc import Sequence

from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_sidecar.agent.learning.tuning_subjects import TuningSubjects, surroundings
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.tuning.core.grouping import CompiledChoice, FileGrouping
from stoker_sidecar.tuning.source import BuiltInRules, TuningChoice
from stoker_sidecar.tuning.tuner import TuningSubject
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.documents.assembly import read_profile
from stoker_tuning.rules.facts import SystemFacts
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

DIGITS = NodeDataset(namespace="vision", name="digits", uid="u1", source=Source(uri="s3://b/p"), version="d1")
TRAINS = NodeWorkload(pod="vision/a", datasets=("vision/digits",), phase="Training", items_per_second=100.0)


class Node:
    """A node with one Dataset. ``workloads``: the rows of its pods."""

    def __init__(self, phase: NodePhase = NodePhase.WARMING) -> None:
        self.plan = NodePlan()
        spec = NodeCacheSpec(datasets=(DIGITS,))
        self.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n", generation=1), spec=spec))
        self.plan.rows = {"u1": NodeDatasetStatus(namespace="vision", name="digits", uid="u1", phase=phase)}
        self.workloads: Sequence[NodeWorkload] = ()
        self.system = SystemFacts()
        self.now = 0.0
        self.acting = TuningSubjects(
            self.plan,
            CacheFolders([]),
            BuiltInRules(),
            lambda: self.workloads,
            system=lambda: self.system,
            clock=lambda: self.now,
        )

    def subjects(self) -> list[TuningSubject]:
        return list(self.acting.subjects())


def test_a_version_that_is_being_fetched_is_acted_on_also_while_nobody_reads_it() -> None:
    assert Node().subjects() == [TuningSubject(("u1", "d1"))]


def test_of_a_version_that_is_whole_there_is_nothing_to_fetch() -> None:
    assert [subject.whole for subject in Node(NodePhase.WARM).subjects()] == [True]


def test_pods_count_for_the_datasets_that_they_have_mounted() -> None:
    node = Node()
    node.workloads = [TRAINS, TRAINS.model_copy(update={"pod": "vision/b", "datasets": ("vision/other",)})]
    (subject,) = node.subjects()
    assert [(each.workload.job, each.workload.phase) for each in subject.surroundings] == [("a", "Training")]


def test_a_workload_that_gets_faster_or_slower_does_the_same() -> None:
    node = Node()
    node.workloads = [TRAINS]
    before = node.subjects()
    node.workloads = [TRAINS.model_copy(update={"items_per_second": 3.0})]
    assert node.subjects() == before


def batch_sizes(node: Node, *reports: tuple[str, int]) -> list[float | None]:
    """Report a phase and batch size several times. Return the batch size in the facts after each report."""
    seen = []
    for phase, size in reports:
        node.workloads = [TRAINS.model_copy(update={"phase": phase, "batch_size": size})]
        (subject,) = node.subjects()
        seen.append(subject.surroundings[0].workload.batch_size)
    return seen


def test_the_smaller_last_batch_of_an_epoch_is_no_other_workload() -> None:
    told = (("Training", 256), ("Training", 9), ("Validation", 64), ("Training", 256), ("Training", 512))
    assert batch_sizes(Node(), *told) == [256, 256, 64, 256, 512]


def test_its_speed_counts_anew_when_it_does_something_else() -> None:
    node = Node()
    node.workloads = [TRAINS]
    node.subjects()
    node.workloads = [TRAINS.model_copy(update={"items_per_second": 3.0, "phase": "Validation"})]
    (subject,) = node.subjects()
    assert subject.surroundings[0].access.items_per_second == 3.0


def test_words_that_are_no_phase_or_pattern_are_not_known() -> None:
    odd = TRAINS.model_copy(update={"phase": "Dreaming", "pattern": "zigzag"})
    found = surroundings(odd, SystemFacts())
    assert (found.workload.phase, found.access.pattern) == (None, None)
    known = surroundings(TRAINS.model_copy(update={"pattern": "shuffled"}), SystemFacts())
    assert (known.workload.phase, known.access.pattern) == (TrainingPhase.TRAINING, AccessPattern.SHUFFLED)


def test_a_workload_has_the_batch_size_and_the_job_of_its_row() -> None:
    found = surroundings(TRAINS.model_copy(update={"batch_size": 256, "job": "resnet"}), SystemFacts()).workload
    assert (found.batch_size, found.job, found.namespace) == (256, "resnet", "vision")


def test_a_workload_has_the_kind_of_the_model_file_that_it_loaded() -> None:
    rows = [TRAINS.model_copy(update={"model_kind": kind}) for kind in ("", "Weights", "Nonsense")]
    assert [surroundings(row, SystemFacts()).workload.model_kind for row in rows] == [None, "Weights", None]


def test_a_node_has_at_least_the_gpus_that_a_pod_of_it_has_got() -> None:
    row = TRAINS.model_copy(update={"gpus": 4})
    seen = [surroundings(row, SystemFacts(gpu_count=count)).system.gpu_count for count in (None, 0, 8)]
    assert seen == [4, 4, 8]


def test_the_machine_counts_also_while_nobody_reads() -> None:
    node = Node()
    node.system = SystemFacts(gpu_count=8)
    (subject,) = node.subjects()
    assert (subject.surroundings, subject.system.gpu_count) == ((), 8)


def fetch(node: Node, rate: int, *, limited: bool) -> TuningSubject:
    """Let the node fetch its Dataset for a minute at ``rate`` bytes per second.

    ``limited``: the node itself limits the rate, so that the rate of the source is unknown.
    """
    node.plan.source_rates = {} if limited else {"u1": rate}
    for second in range(60):
        node.now = float(second)
        node.plan.rows = {"u1": node.plan.rows["u1"].model_copy(update={"bytes_per_second": rate})}
        (subject,) = node.subjects()
    return subject


def test_a_measured_rate_takes_the_place_of_what_the_network_can() -> None:
    node = Node()
    node.system = SystemFacts(bandwidth=1.25e9)
    node.workloads = [TRAINS]
    subject = fetch(node, 40_000_000, limited=False)
    assert (subject.system.bandwidth, subject.surroundings[0].system.bandwidth) == (4e7, 4e7)


def test_what_is_limited_does_not_make_a_store_slow() -> None:
    node = Node()
    node.system = SystemFacts(bandwidth=1.25e9)
    assert fetch(node, 1_000, limited=True).system.bandwidth == 1.25e9


RULES = {
    "apiVersion": "stoker.dev/v1alpha1",
    "kind": "TuningProfile",
    "metadata": {"name": "mine"},
    "spec": {
        "rules": [
            {
                "id": "large-batches",
                "conditions": [
                    {
                        "type": "workload_context",
                        "property": "batch_size",
                        "operator": "greater_or_equal",
                        "value": 256,
                    },
                    {"type": "workload_context", "property": "job", "operator": "equals", "value": "resnet"},
                ],
                "actions": [{"type": "prefetch", "parameters": {"prefetch_depth": 77}}],
            }
        ],
        "hardware_profiles": [
            {
                "name": "eight",
                "conditions": {"gpu_count": ">= 8", "memory": ">= 64Gi", "disk": "> 1Ti", "bandwidth": "< 10G"},
                "rules": [
                    {"id": "streams", "actions": [{"type": "stream", "parameters": {"parallel_streams": 7}}]},
                ],
            }
        ],
    },
}


def knobs_of_a_file(node: Node) -> tuple[int | None, int | None]:
    """Return the knobs of one file from the node's rules: its depth and its streams."""
    (subject,) = node.subjects()
    mine = [rule for rule in read_profile(json.dumps(RULES)).rules if rule.origin.document == "mine"]
    grouping = FileGrouping(CompiledChoice(TuningChoice(tuple(mine))), subject.surroundings)
    number = grouping.number("a.bin", 1 << 30)
    return grouping.knobs[number].ahead_files, grouping.knobs[number].streams


def test_rules_about_batches_jobs_and_hardware_apply_on_a_node() -> None:
    node = Node()
    node.workloads = [TRAINS.model_copy(update={"batch_size": 256, "job": "resnet"})]
    assert knobs_of_a_file(node) == (77, None)
    node.system = SystemFacts(memory=128 << 30, gpu_count=8, bandwidth=1.25e9, disk=2 << 40)
    assert knobs_of_a_file(node) == (77, 7)
    node.workloads = [TRAINS]
    assert knobs_of_a_file(node) == (None, 7)
