"""The node follows pods in detail. Their activity becomes their rows."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import MOST_WORKLOADS, Attribution, EvidenceSource, NodeWorkload
from stoker_sidecar.agent.observation.training.dataset_layouts import DatasetLayouts
from stoker_sidecar.agent.observation.training.model_heads import ModelHeads
from stoker_sidecar.agent.observation.training.training_watch import TrainingWatch
from stoker_sidecar.agent.observation.workloads import Workloads
from stoker_sidecar.agent.questions.reading.reading import ObservedTree
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.access_protocol import AccessBatch, AccessRow
from stoker_tuning.training.layout import CHUNK, DatasetLayout, FileFact, make_layout
from tests.fakes.volumes import DIGEST, UID, Clock, publish_request
from tests.support.version_readers import InProcessReader
from tests.unit.stoker_sidecar.agent.builders import KnownReaders
from tests.unit.stoker_tuning.training.simulation import layout, shuffled

TRAIN, VALIDATION = range(400), range(400, 500)
IMAGES = layout(train=400, val=100)
WEIGHTS = make_layout([FileFact(2, "model.safetensors", 1000)])
TARS = make_layout(FileFact(number, f"train/{number}.tar", 10 * CHUNK) for number in range(40))


class MadeLayouts(DatasetLayouts):
    """Layouts by UID of the Dataset. The layouts of other Datasets never become ready."""

    def __init__(self, made: Mapping[str, DatasetLayout]) -> None:
        super().__init__(CacheFolders([]), InProcessReader())
        self.made = dict(made)

    def get(self, version: VersionKey, *, by_chunk: bool) -> DatasetLayout | None:
        return self.made.get(version[0])

    def is_made_now(self, version: VersionKey, *, by_chunk: bool) -> bool:
        return version[0] not in self.made


def record(pod: str = "trainer-0", uid: str = UID, mode: MountMode = MountMode.NATIVE, **request: str) -> Published:
    values = publish_request(pod, dataset=f"of-{uid}", **request)
    return Published(values, uid, DIGEST, Path("/cache/v"), 10, 100, mode, mode is not MountMode.NATIVE)


class WatchedNode:
    """Pods with mounts, and the node's data about them."""

    def __init__(
        self,
        *records: Published,
        readers: dict[int, str] | None = None,
        made: Mapping[str, DatasetLayout] | None = None,
    ) -> None:
        self.records = records
        self.clock = Clock()
        self.layouts = MadeLayouts({UID: IMAGES} if made is None else made)
        watch = TrainingWatch(self.layouts, ModelHeads(CacheFolders([]), InProcessReader()), self.clock)
        known = KnownReaders(readers or {})
        self.workloads = Workloads(lambda: self.records, known, self.clock, watch)
        self.workloads.follow()

    def read(self, files: Iterable[int], pid: int = 0, uid: str = UID, source: str = "fanotify") -> None:
        """Open ten files per second, in one batch per second."""
        order = list(files)
        for at in range(0, len(order), 10):
            self.clock.now += 1.0
            self._batch([AccessRow(self.clock.now, file, 0, 0, pid) for file in order[at : at + 10]], uid, source)

    def read_bytes(self, file: int, length: int, uid: str = UID) -> None:
        """Read from a file by FUSE."""
        self.clock.now += 1.0
        self._batch([AccessRow(self.clock.now, file, 0, length, 0)], uid, "fuse")

    def _batch(self, rows: Sequence[AccessRow], uid: str, source: str) -> None:
        now, opens = self.clock.now, sum(not row.length for row in rows)
        batch = AccessBatch(1, now - 1.0, now, 1.0, opens, len(rows) - opens, rows=rows)
        self.workloads.take(ObservedTree(uid, DIGEST, EvidenceSource(source)), batch)

    def row(self, pod: str = "vision/trainer-0") -> NodeWorkload:
        self.workloads.follow()
        return next(row for row in self.workloads.rows() if row.pod == pod)


def test_a_pod_that_has_got_its_data_begins() -> None:
    row = WatchedNode(record()).row()
    assert (row.phase, row.epoch, row.attribution, row.reads) == ("Initialization", None, None, 0)


@pytest.mark.parametrize("mode", [MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE])
def test_a_pod_that_reads_shuffled_images_trains(mode: MountMode) -> None:
    node = WatchedNode(record(mode=mode))
    node.read(shuffled(TRAIN, 1)[:200], source="fuse" if mode is MountMode.FUSE else "fanotify")
    row = node.row()
    assert (row.phase, row.epoch, row.epoch_progress, row.epoch_error) == ("Training", 0, 0.5, 0.0)
    assert (row.pattern, row.splits) == ("shuffled", ("train", "validation"))
    assert row.confidence is not None


def test_validation_and_the_next_epoch_are_noticed() -> None:
    node = WatchedNode(record())
    node.read(shuffled(TRAIN, 1))
    node.read(VALIDATION)
    assert node.row().phase == "Validation"
    node.read(shuffled(TRAIN, 2)[:100])
    assert (node.row().phase, node.row().epoch, node.row().epoch_progress) == ("Training", 1, 0.25)


def test_a_phase_lasts_though_nothing_is_read_any_more() -> None:
    node = WatchedNode(record())
    node.read(shuffled(TRAIN, 1)[:100])
    node.clock.now += 3600.0
    assert node.row().phase == "Training"


def test_what_is_opened_of_a_fuse_mount_goes_on_natively_in_the_same_epoch() -> None:
    node = WatchedNode(record(mode=MountMode.FUSE))
    order = shuffled(TRAIN, 1)
    node.read(order[:200], source="fuse")
    node.records = (record(),)
    node.workloads.follow()
    node.read(order[200:300])
    assert (node.row().epoch, node.row().epoch_progress) == (0, 0.75)


def test_large_files_count_by_chunks_while_their_reads_are_seen() -> None:
    node = WatchedNode(record(mode=MountMode.FUSE), made={UID: TARS})
    for file in range(20):
        node.read_bytes(file, CHUNK)
    assert node.row().epoch_progress == 0.05


def test_a_server_of_weights_does_inference() -> None:
    node = WatchedNode(record(), made={UID: WEIGHTS})
    node.read([2])
    row = node.row()
    assert (row.phase, row.checkpoint) == ("Inference", "loaded model.safetensors (Weights)")
    assert row.model_kind == "Weights"


def test_a_server_that_read_its_model_before_the_layout_was_made_does_inference() -> None:
    node = WatchedNode(record(), made={})
    node.read([2])
    assert node.row().phase == ""
    node.layouts.made[UID] = WEIGHTS
    assert node.row().phase == "Inference"


def test_of_a_pod_that_reads_long_before_the_layout_is_made_the_first_accesses_are_kept() -> None:
    node = WatchedNode(record(), made={})
    for seed in range(10):
        node.read(shuffled(TRAIN, seed))
    node.layouts.made[UID] = IMAGES
    assert (node.row().phase, node.row().epoch) == ("Training", 4)


def test_who_has_weights_and_data_mounted_does_what_it_does_with_the_data() -> None:
    node = WatchedNode(record(), record(uid="weights", target="/kubelet/w"), made={"weights": WEIGHTS, UID: IMAGES})
    node.read([2], uid="weights")
    assert node.row().phase == "Initialization"
    node.read(shuffled(TRAIN, 1)[:100])
    assert (node.row().phase, node.row().checkpoint) == ("Training", "loaded model.safetensors (Weights)")


def test_pods_that_cannot_be_told_apart_have_a_phase_and_no_epoch() -> None:
    node = WatchedNode(record("trainer-0"), record("trainer-1"))
    node.read(shuffled(TRAIN, 1)[:100])
    row = node.row("vision/trainer-1")
    assert (row.phase, row.epoch, row.attribution) == ("Training", None, Attribution.VERSION)


def test_three_that_go_through_the_same_data_by_themselves_are_a_sweep() -> None:
    pods = [f"trainer-{number}" for number in range(3)]
    readers = {number: f"uid-{pod}" for number, pod in enumerate(pods, start=1)}
    node = WatchedNode(*map(record, pods), readers=readers)
    for seed, pid in enumerate(readers):
        node.read(shuffled(TRAIN, seed)[:200], pid=pid)
    assert {node.row(f"vision/{pod}").phase for pod in pods} == {"HyperparamTuning"}


def test_ten_pods_are_followed_and_the_others_are_counted() -> None:
    crowd = [record(f"crowd-{number}", uid=f"u{number}", pod_namespace="crowd") for number in range(15)]
    node = WatchedNode(*crowd, record(), made={UID: IMAGES} | {f"u{number}": IMAGES for number in range(15)})
    node.read(shuffled(TRAIN, 1)[:50], uid="u14")
    assert node.row("crowd/crowd-14").phase == ""
    assert node.row("crowd/crowd-14").reads == 50
    phases = [row.phase for row in node.workloads.rows()]
    assert phases.count("Initialization") == MOST_WORKLOADS
    assert node.row().phase == "Initialization"


def test_a_pod_that_is_gone_is_followed_no_more() -> None:
    node = WatchedNode(record())
    node.records = ()
    node.workloads.follow()
    assert node.workloads.rows() == ()


def test_a_batch_from_the_future_is_made_up() -> None:
    node = WatchedNode(record())
    node.workloads.take(ObservedTree(UID, DIGEST, EvidenceSource.FANOTIFY), AccessBatch(1, 0.0, 1e9, 1.0, 5))
    assert node.row().reads == 0
