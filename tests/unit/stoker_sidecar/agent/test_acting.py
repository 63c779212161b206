"""What a node acts on: the versions that are not whole, and what the pods that have them mounted do."""

from collections.abc import Sequence

from stoker_api.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.nodecache import NodeCache, NodeCacheSpec, NodeDataset, NodeDatasetStatus, NodePhase, NodeWorkload
from stoker_sidecar.agent.acting import NodeActing, surroundings
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.tuning.built_in import BuiltInRules
from stoker_sidecar.tuning.tuner import TuningSubject
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.rules.facts import SystemFacts
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

DIGITS = NodeDataset(namespace="vision", name="digits", uid="u1", source=Source(uri="s3://b/p"), version="d1")
TRAINS = NodeWorkload(pod="vision/a", datasets=("vision/digits",), phase="Training", items_per_second=100.0)


class Node:
    """A node with one Dataset; ``workloads`` are what it says of its pods."""

    def __init__(self, phase: NodePhase = NodePhase.WARMING) -> None:
        self.plan = NodePlan()
        spec = NodeCacheSpec(datasets=(DIGITS,))
        self.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n", generation=1), spec=spec))
        self.plan.rows = {"u1": NodeDatasetStatus(namespace="vision", name="digits", uid="u1", phase=phase)}
        self.workloads: Sequence[NodeWorkload] = ()
        self.acting = NodeActing(self.plan, CacheFolders([]), BuiltInRules(), lambda: self.workloads)

    def subjects(self) -> list[TuningSubject]:
        return list(self.acting.subjects())


def test_a_version_that_is_being_fetched_is_acted_on_also_while_nobody_reads_it() -> None:
    assert Node().subjects() == [TuningSubject(("u1", "d1"))]


def test_of_a_version_that_is_whole_there_is_nothing_to_fetch() -> None:
    assert Node(NodePhase.WARM).subjects() == []


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
