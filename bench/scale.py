"""The sizes of the workloads for a quick, a usual and a full run. Pure."""

from dataclasses import dataclass, replace

# Of the MLPerf storage benchmark: a JPEG of ImageNet, one of retinanet, and a volume of UNet3D.
IMAGE_BYTES = 114_660
RETINANET_BYTES = 322_957
SHARD_BYTES = 146_600_000
# A small object of data-path measurements.
SMALL_BYTES = 100 * 1024
TINY_BYTES = 4 * 1024
ENTRY_BYTES = 16
OBJECT_BYTES = 1024
GIB = 2**30


@dataclass(frozen=True)
class Corpus:
    """Objects of one size, spread evenly over folders.

    With ``checksums`` the server stores a CRC-64/NVME of each object, as Amazon S3 does since 2025. Otherwise it stores
    only an MD5. With ``tensors``, each object is a safetensors file of this number of tensors.
    """

    files: int
    size: int
    folders: int
    checksums: bool = True
    tensors: int = 0

    @property
    def total_bytes(self) -> int:
        """Sum of the objects' sizes."""
        return self.files * self.size


@dataclass(frozen=True)
class WarmUp:
    """A corpus of B6, and the network profiles of its warm-ups."""

    corpus: Corpus
    profiles: tuple[str, ...] = ("P0",)


@dataclass(frozen=True)
class Storm:
    """A kill storm: its data, and the number of kills with overlay and with plain FUSE."""

    corpus: Corpus
    kills: tuple[int, int]


@dataclass(frozen=True)
class Gpus:
    """Simulated training: numbers of accelerators. Each runs ``epochs`` from a cold start on every file system."""

    corpus: Corpus
    counts: tuple[int, ...]
    epochs: int = 3
    batch: int = 50  # so that few images give many steps


@dataclass(frozen=True)
class Cells:
    """The data of the nine cells of tuning: training images, a model next to other files, pipeline shards."""

    images: Corpus
    model: Corpus
    beside: Corpus
    shards: Corpus


@dataclass(frozen=True)
class Plane:
    """A simulated cluster: its sizes in ascending order, and the amount of work at each.

    ``everywhere`` is the number of Datasets on all nodes. ``changes`` is the number of reports that are followed
    individually. ``churn_seconds`` is the time in which a tenth of the nodes changes each minute. ``warming`` is the
    seconds in which a played sidecar warms a Dataset. ``long_churn`` is the seconds of churn of pods and nodes, in
    which the operator's memory is measured.
    """

    sizes: tuple[int, ...]
    everywhere: int
    changes: int
    churn_seconds: float
    pods: int
    probes: int
    warming: float = 4.0
    long_churn: float = 0.0


@dataclass(frozen=True)
class SharedCorpus:
    """Corpora of peers, and the line rate in Mbit/s, low enough that lines limit before the machine's cores."""

    name: str
    corpus: Corpus
    megabits: int


@dataclass(frozen=True)
class Sharing:
    """Numbers of nodes that warm one Dataset at the same time, and its corpora."""

    nodes: tuple[int, ...]
    corpora: tuple[SharedCorpus, ...]


@dataclass(frozen=True)
class Scale:
    """Sizes of one run of all workloads.

    Each figure has ``repeats`` samples, or fewer after ``case_seconds``.
    """

    repeats: int
    case_seconds: float
    epochs: Corpus  # B1
    large: Corpus  # B2
    partial: Corpus  # B3
    quotas: tuple[float, ...]  # B3, as shares of the corpus
    preads: tuple[int, int]  # B4: bytes of the file, and the number of reads at random places
    entries: tuple[Corpus, ...]  # B5
    warmups: tuple[WarmUp, ...]  # B6
    killed: Corpus  # B6, after a kill -9: the result is a count, so fewer objects are enough
    shards: Corpus  # B8, and B7's single-flight
    images: Corpus  # B7, B10, idle, observer
    storm: Storm
    idle_seconds: float
    memory: Corpus
    warm_seconds: float  # memory: longest observation of a warm-up; the figures show its progress
    gpus: Gpus
    article: Gpus
    retinanet: Corpus
    retinanet_epochs: int  # with the cold one
    cells: Cells
    cold: tuple[Corpus, ...]
    sequential: tuple[Corpus, ...]
    profiled: Corpus
    known: Corpus  # pages
    plane: Plane
    sharing: Sharing
    faults: int  # of peers
    long_trainings: bool = False  # phases: also a wrong order, and runs of ten minutes


def sized(
    scale: Scale,
    repeats: int | None,
    case_seconds: float | None,
    cluster_sizes: tuple[int, ...] = (),
    long_churn: float = 0.0,
) -> Scale:
    """Return the scale with these numbers of samples or cluster sizes, if given."""
    return replace(
        scale,
        repeats=scale.repeats if repeats is None else max(1, repeats),
        case_seconds=scale.case_seconds if case_seconds is None else case_seconds,
        plane=replace(scale.plane, sizes=cluster_sizes or scale.plane.sizes, long_churn=long_churn),
        sharing=replace(scale.sharing, nodes=cluster_sizes or scale.sharing.nodes),
    )


_QUICK = Scale(
    repeats=1,
    case_seconds=0.0,
    epochs=Corpus(400, IMAGE_BYTES, 4),
    large=Corpus(2, 16_000_000, 1),
    partial=Corpus(100, IMAGE_BYTES, 4),
    quotas=(0.5,),
    preads=(32_000_000, 200),
    entries=(Corpus(2_000, ENTRY_BYTES, 1),),
    warmups=(WarmUp(Corpus(500, SMALL_BYTES, 5)),),
    killed=Corpus(400, SMALL_BYTES, 4),
    shards=Corpus(2, 20_000_000, 1),
    images=Corpus(200, IMAGE_BYTES, 4),
    storm=Storm(Corpus(200, IMAGE_BYTES, 4), kills=(3, 1)),
    idle_seconds=1.0,
    memory=Corpus(5_000, OBJECT_BYTES, 5),
    warm_seconds=2.0,
    gpus=Gpus(Corpus(100, IMAGE_BYTES, 4), counts=(1,)),
    article=Gpus(Corpus(80, IMAGE_BYTES, 4), counts=(1,), batch=10),
    retinanet=Corpus(200, RETINANET_BYTES, 4),
    retinanet_epochs=2,
    cells=Cells(
        Corpus(200, IMAGE_BYTES, 4),
        Corpus(2, 16_000_000, 1, tensors=8),
        Corpus(50, SMALL_BYTES, 2),
        Corpus(2, 16_000_000, 1),
    ),
    cold=(Corpus(200, SMALL_BYTES, 4),),
    sequential=(Corpus(200, SMALL_BYTES, 4), Corpus(2, 16_000_000, 1)),
    profiled=Corpus(200, SMALL_BYTES, 4),
    known=Corpus(1_200, TINY_BYTES, 12),
    plane=Plane((100,), everywhere=4, changes=4, churn_seconds=10.0, pods=50, probes=2),
    sharing=Sharing((2,), (SharedCorpus("100 files of 100 KiB", Corpus(100, SMALL_BYTES, 4), 100),)),
    faults=100,
)
# A twentieth of 1 Gbit/s, or three: two cores do the work of all nodes and of the bucket.
_SHARING = Sharing(
    (2, 4, 8),
    (
        SharedCorpus("256 files of 100 KiB", Corpus(256, SMALL_BYTES, 4), 50),
        SharedCorpus("12 shards of 9 MB", Corpus(12, 9_000_000, 1), 150),
        SharedCorpus("one file of 96 MB", Corpus(1, 96_000_000, 1), 150),
    ),
)
# 8 nodes have one and a half of 12 pieces each. This corpus has six each.
_LARGER = SharedCorpus("one file of 384 MB", Corpus(1, 384_000_000, 1), 150)
_DEFAULT = Scale(
    repeats=7,  # for short cases: an epoch from a warm page cache takes 0.2 s
    case_seconds=15.0,  # so that the whole run takes about an hour on two cores
    epochs=Corpus(10_000, IMAGE_BYTES, 100),  # half of the plan's, for two samples of a cold epoch
    large=Corpus(24, SHARD_BYTES, 1),
    partial=Corpus(2_000, IMAGE_BYTES, 20),
    quotas=(0.25, 0.5, 0.75),
    preads=(2 * GIB, 20_000),
    entries=(Corpus(100_000, ENTRY_BYTES, 1), Corpus(100_000, ENTRY_BYTES, 1_000)),
    warmups=(
        WarmUp(Corpus(20_000, SMALL_BYTES, 200), ("P0", "P20", "PBW")),
        WarmUp(Corpus(24, SHARD_BYTES, 1), ("P0", "P20")),
        WarmUp(Corpus(24, SHARD_BYTES, 1, checksums=False)),
        WarmUp(Corpus(200_000, TINY_BYTES, 200), ("P0", "P20", "PBW")),
        WarmUp(Corpus(8, SHARD_BYTES, 1), ("PBW",)),
    ),
    killed=Corpus(4_000, SMALL_BYTES, 40),
    shards=Corpus(8, SHARD_BYTES, 1),
    images=Corpus(4_000, IMAGE_BYTES, 40),
    storm=Storm(Corpus(2_000, IMAGE_BYTES, 20), kills=(200, 40)),
    idle_seconds=10.0,
    memory=Corpus(200_000, OBJECT_BYTES, 200),
    warm_seconds=40.0,
    gpus=Gpus(Corpus(2_000, IMAGE_BYTES, 20), counts=(1, 4, 8)),
    article=Gpus(Corpus(800, IMAGE_BYTES, 8), counts=(1, 4, 8), batch=10),
    retinanet=Corpus(2_000, RETINANET_BYTES, 20),
    retinanet_epochs=4,
    cells=Cells(
        Corpus(3_000, IMAGE_BYTES, 30),
        Corpus(2, 128_000_000, 1, tensors=32),
        Corpus(4_000, SMALL_BYTES, 40),
        Corpus(4, SHARD_BYTES, 1),
    ),
    cold=(Corpus(10_000, SMALL_BYTES, 100), Corpus(20_000, TINY_BYTES, 20)),
    sequential=(Corpus(4_000, SMALL_BYTES, 8), Corpus(4, SHARD_BYTES, 1)),
    profiled=Corpus(600, SMALL_BYTES, 6),
    known=Corpus(40_000, SMALL_BYTES, 400),
    plane=Plane((100, 500, 1_000), everywhere=20, changes=6, churn_seconds=20.0, pods=200, probes=3),
    sharing=_SHARING,
    faults=1_000,
)
_FULL = replace(
    _DEFAULT,
    repeats=5,
    case_seconds=float("inf"),
    epochs=Corpus(20_000, IMAGE_BYTES, 200),
    partial=Corpus(20_000, IMAGE_BYTES, 200),
    entries=(
        Corpus(100_000, ENTRY_BYTES, 1),
        Corpus(100_000, ENTRY_BYTES, 1_000),
        Corpus(1_170_301, ENTRY_BYTES, 1_000),  # the names of MLPerf's retinanet
    ),
    warmups=(
        WarmUp(Corpus(20_000, SMALL_BYTES, 200), ("P0", "P20", "PBW")),
        WarmUp(Corpus(24, SHARD_BYTES, 1), ("P0", "P20", "PBW")),
        WarmUp(Corpus(24, SHARD_BYTES, 1, checksums=False)),
        WarmUp(Corpus(200_000, TINY_BYTES, 200), ("P0", "P20", "PBW")),
    ),
    killed=Corpus(20_000, SMALL_BYTES, 200),
    shards=Corpus(24, SHARD_BYTES, 1),
    images=Corpus(20_000, IMAGE_BYTES, 200),
    storm=Storm(Corpus(4_000, IMAGE_BYTES, 40), kills=(200, 200)),
    idle_seconds=30.0,
    warm_seconds=600.0,
    gpus=Gpus(Corpus(8_000, IMAGE_BYTES, 80), counts=(1, 4, 8)),
    article=Gpus(Corpus(4_000, IMAGE_BYTES, 40), counts=(1, 4, 8)),
    retinanet=Corpus(12_000, RETINANET_BYTES, 120),
    retinanet_epochs=8,
    cells=Cells(
        Corpus(20_000, IMAGE_BYTES, 200),
        Corpus(4, 512_000_000, 1, tensors=128),
        Corpus(20_000, SMALL_BYTES, 200),
        Corpus(12, SHARD_BYTES, 1),
    ),
    cold=(Corpus(20_000, SMALL_BYTES, 200), Corpus(20_000, TINY_BYTES, 20)),
    profiled=Corpus(2_000, SMALL_BYTES, 20),
    known=Corpus(100_000, SMALL_BYTES, 1_000),
    plane=Plane((100, 500, 1_000, 2_500, 5_000), everywhere=20, changes=10, churn_seconds=60.0, pods=1_000, probes=5),
    sharing=replace(_SHARING, corpora=(*_SHARING.corpora, _LARGER)),
    faults=10_000,
    long_trainings=True,
)
# Sizes at which a workload takes some minutes and the important figures have several samples each.
_BRIEF = replace(
    _DEFAULT,
    repeats=5,
    case_seconds=45.0,
    epochs=Corpus(4_000, IMAGE_BYTES, 40),
    warmups=(
        WarmUp(Corpus(8_000, SMALL_BYTES, 80), ("P0", "P20")),
        WarmUp(Corpus(8, SHARD_BYTES, 1)),
        WarmUp(Corpus(10_000, TINY_BYTES, 10)),
    ),
    storm=Storm(Corpus(2_000, IMAGE_BYTES, 20), kills=(100, 20)),
    cold=(Corpus(4_000, SMALL_BYTES, 40), Corpus(10_000, TINY_BYTES, 10)),
    known=Corpus(10_000, SMALL_BYTES, 100),
    plane=Plane((100, 500, 1_000), everywhere=10, changes=4, churn_seconds=10.0, pods=100, probes=2),
)
SCALES = {"quick": _QUICK, "brief": _BRIEF, "default": _DEFAULT, "full": _FULL}
