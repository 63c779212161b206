"""How much is measured: the sizes of the workloads for a quick, a usual and a full run. Pure."""

from dataclasses import dataclass, replace

# A JPEG of ImageNet in the MLPerf storage benchmark, a volume of its UNet3D, a small object of data-path measurements.
IMAGE_BYTES = 114_660
SHARD_BYTES = 146_600_000
SMALL_BYTES = 100 * 1024
TINY_BYTES = 4 * 1024
ENTRY_BYTES = 16
OBJECT_BYTES = 1024
GIB = 2**30


@dataclass(frozen=True)
class Corpus:
    """Objects of one size, spread evenly over folders.

    With ``checksums`` the server keeps a CRC-64/NVME of each, as Amazon S3 does of every object since 2025; else just
    an MD5.
    """

    files: int
    size: int
    folders: int
    checksums: bool = True

    @property
    def total_bytes(self) -> int:
        """Sum of the objects' sizes."""
        return self.files * self.size


@dataclass(frozen=True)
class WarmUp:
    """A corpus of B6, and the distances of the server at which it is warmed up."""

    corpus: Corpus
    profiles: tuple[str, ...] = ("P0",)


@dataclass(frozen=True)
class Storm:
    """A kill storm: what is read meanwhile, and how many kills there are with overlay and with plain FUSE."""

    corpus: Corpus
    kills: tuple[int, int]


@dataclass(frozen=True)
class Gpus:
    """Simulated training: numbers of accelerators, each for ``epochs`` from a cold start on every file system."""

    corpus: Corpus
    counts: tuple[int, ...]
    epochs: int = 3
    batch: int = 50  # so that few images are many steps


@dataclass(frozen=True)
class Cells:
    """The data of the nine cells of tuning: images of a training, a model beside other files, shards of a pipeline."""

    images: Corpus
    model: Corpus
    beside: Corpus
    shards: Corpus


@dataclass(frozen=True)
class Finding:
    """How long a mount may look for the best value, in windows of so many seconds, and how it is compared with others.

    ``skipped``, ``counted``: seconds of each turn. ``turns``: of each value, one after the other.
    """

    files: int
    windows: int
    window: float
    turns: int
    skipped: float
    counted: float


@dataclass(frozen=True)
class Plane:
    """A simulated cluster: its sizes, one after the other, and how much is measured at each.

    ``everywhere``: Datasets on all nodes. ``changes``: reports that are followed one by one. ``churn_seconds``: for how
    long a tenth of the nodes a minute changes. ``warming``: seconds in which a played sidecar has a Dataset.
    ``long_churn``: seconds for which pods and nodes come and go as well, and the operator's memory is followed.
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
    """What neighbours share, behind lines of so many Mbit/s, so that lines are narrower than the machine's cores."""

    name: str
    corpus: Corpus
    megabits: int


@dataclass(frozen=True)
class Sharing:
    """Numbers of nodes that warm one Dataset at the same time, and of what."""

    nodes: tuple[int, ...]
    corpora: tuple[SharedCorpus, ...]


@dataclass(frozen=True)
class HerdSize:
    """Nodes of a modelled herd, and the pieces of ``size`` bytes that each asks for."""

    nodes: int
    pieces: int
    size: int = 8 * 2**20


@dataclass(frozen=True)
class Scale:
    """Sizes of one run of all workloads.

    Each figure is taken ``repeats`` times, unless it has taken ``case_seconds`` before.
    """

    repeats: int
    case_seconds: float
    epochs: Corpus  # B1
    large: Corpus  # B2
    partial: Corpus  # B3
    quotas: tuple[float, ...]  # B3, as shares of the corpus
    preads: tuple[int, int]  # B4: bytes of the file, and how many places of it are read
    entries: tuple[Corpus, ...]  # B5
    warmups: tuple[WarmUp, ...]  # B6
    killed: Corpus  # B6, after a kill -9: a count, so that fewer objects tell as much
    shared: Corpus  # B7
    shards: Corpus  # B8, and B7's single-flight
    switched: Corpus  # B10
    storm: Storm
    idle_seconds: float
    memory: Corpus
    warm_seconds: float  # memory: longest that warming is watched; the figures say how far it got
    gpus: Gpus
    article: Gpus
    cells: Cells
    finding: Finding
    second: tuple[Corpus, ...]  # and cold
    profiled: Corpus
    known: Corpus  # pages
    plane: Plane
    sharing: Sharing
    herd: HerdSize
    faults: int  # of neighbours


def sized(
    scale: Scale,
    repeats: int | None,
    case_seconds: float | None,
    cluster_sizes: tuple[int, ...] = (),
    long_churn: float = 0.0,
) -> Scale:
    """Return the scale with other numbers of samples, or sizes of clusters, where they are given."""
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
    shared=Corpus(100, IMAGE_BYTES, 4),
    shards=Corpus(2, 20_000_000, 1),
    switched=Corpus(200, IMAGE_BYTES, 4),
    storm=Storm(Corpus(200, IMAGE_BYTES, 4), kills=(3, 1)),
    idle_seconds=1.0,
    memory=Corpus(5_000, OBJECT_BYTES, 5),
    warm_seconds=2.0,
    gpus=Gpus(Corpus(100, IMAGE_BYTES, 4), counts=(1,)),
    article=Gpus(Corpus(80, IMAGE_BYTES, 4), counts=(1,), batch=10),
    cells=Cells(
        Corpus(200, IMAGE_BYTES, 4), Corpus(2, 16_000_000, 1), Corpus(50, SMALL_BYTES, 2), Corpus(2, 16_000_000, 1)
    ),
    finding=Finding(files=1, windows=2, window=2.0, turns=1, skipped=1.0, counted=2.0),
    second=(Corpus(200, SMALL_BYTES, 4),),
    profiled=Corpus(200, SMALL_BYTES, 4),
    known=Corpus(1_200, TINY_BYTES, 12),
    plane=Plane((100,), everywhere=4, changes=4, churn_seconds=10.0, pods=50, probes=2),
    sharing=Sharing((2,), (SharedCorpus("100 files of 100 KiB", Corpus(100, SMALL_BYTES, 4), 100),)),
    herd=HerdSize(64, 256),
    faults=100,
)
# Of 1 Gbit/s a twentieth, or three: two cores have all nodes' work to do, and the bucket's.
_SHARING = Sharing(
    (2, 4, 8),
    (
        SharedCorpus("256 files of 100 KiB", Corpus(256, SMALL_BYTES, 4), 50),
        SharedCorpus("12 shards of 9 MB", Corpus(12, 9_000_000, 1), 150),
        SharedCorpus("one file of 96 MB", Corpus(1, 96_000_000, 1), 150),
    ),
)
# Of 12 pieces 8 nodes have one and a half each; of these six.
_LARGER = SharedCorpus("one file of 384 MB", Corpus(1, 384_000_000, 1), 150)
_DEFAULT = Scale(
    repeats=7,  # short cases need them: an epoch from a warm page cache is over in 0.2 s
    case_seconds=15.0,  # so that the whole run ends within an hour or so on two cores
    epochs=Corpus(10_000, IMAGE_BYTES, 100),  # half of the plan's, for two samples of a cold epoch
    large=Corpus(24, SHARD_BYTES, 1),
    partial=Corpus(2_000, IMAGE_BYTES, 20),
    quotas=(0.25, 0.5, 0.75),
    preads=(2 * GIB, 20_000),
    entries=(Corpus(100_000, ENTRY_BYTES, 1), Corpus(100_000, ENTRY_BYTES, 1_000)),
    warmups=(
        WarmUp(Corpus(20_000, SMALL_BYTES, 200), ("P0", "P20")),
        WarmUp(Corpus(24, SHARD_BYTES, 1), ("P0", "P20")),
        WarmUp(Corpus(24, SHARD_BYTES, 1, checksums=False)),
        WarmUp(Corpus(40_000, TINY_BYTES, 40)),
        WarmUp(Corpus(4_000, SMALL_BYTES, 40), ("PBW",)),
        WarmUp(Corpus(8, SHARD_BYTES, 1), ("PBW",)),
    ),
    killed=Corpus(4_000, SMALL_BYTES, 40),
    shared=Corpus(4_000, IMAGE_BYTES, 40),
    shards=Corpus(8, SHARD_BYTES, 1),
    switched=Corpus(4_000, IMAGE_BYTES, 40),
    storm=Storm(Corpus(2_000, IMAGE_BYTES, 20), kills=(200, 40)),
    idle_seconds=10.0,
    memory=Corpus(200_000, OBJECT_BYTES, 200),
    warm_seconds=40.0,
    gpus=Gpus(Corpus(2_000, IMAGE_BYTES, 20), counts=(1, 4, 8)),
    article=Gpus(Corpus(800, IMAGE_BYTES, 8), counts=(1, 4, 8), batch=10),
    cells=Cells(
        Corpus(3_000, IMAGE_BYTES, 30),
        Corpus(3, SHARD_BYTES, 1),
        Corpus(4_000, SMALL_BYTES, 40),
        Corpus(4, SHARD_BYTES, 1),
    ),
    finding=Finding(files=24, windows=60, window=8.0, turns=3, skipped=8.0, counted=10.0),
    second=(Corpus(10_000, SMALL_BYTES, 100), Corpus(20_000, TINY_BYTES, 20)),
    profiled=Corpus(600, SMALL_BYTES, 6),
    known=Corpus(40_000, SMALL_BYTES, 400),
    plane=Plane((100, 500, 1_000), everywhere=20, changes=6, churn_seconds=20.0, pods=200, probes=3),
    sharing=_SHARING,
    herd=HerdSize(500, 500),
    faults=1_000,
)
_FULL = Scale(
    repeats=5,
    case_seconds=float("inf"),
    epochs=Corpus(20_000, IMAGE_BYTES, 200),
    large=Corpus(24, SHARD_BYTES, 1),
    partial=Corpus(20_000, IMAGE_BYTES, 200),
    quotas=(0.25, 0.5, 0.75),
    preads=(2 * GIB, 20_000),
    entries=(
        Corpus(100_000, ENTRY_BYTES, 1),
        Corpus(100_000, ENTRY_BYTES, 1_000),
        Corpus(1_000_000, ENTRY_BYTES, 1_000),
    ),
    warmups=(
        WarmUp(Corpus(20_000, SMALL_BYTES, 200), ("P0", "P20", "PBW")),
        WarmUp(Corpus(24, SHARD_BYTES, 1), ("P0", "P20", "PBW")),
        WarmUp(Corpus(24, SHARD_BYTES, 1, checksums=False)),
        WarmUp(Corpus(200_000, TINY_BYTES, 200), ("P0", "P20", "PBW")),
    ),
    killed=Corpus(20_000, SMALL_BYTES, 200),
    shared=Corpus(20_000, IMAGE_BYTES, 200),
    shards=Corpus(24, SHARD_BYTES, 1),
    switched=Corpus(20_000, IMAGE_BYTES, 200),
    storm=Storm(Corpus(4_000, IMAGE_BYTES, 40), kills=(200, 200)),
    idle_seconds=30.0,
    memory=Corpus(200_000, OBJECT_BYTES, 200),
    warm_seconds=600.0,
    gpus=Gpus(Corpus(8_000, IMAGE_BYTES, 80), counts=(1, 4, 8)),
    article=Gpus(Corpus(4_000, IMAGE_BYTES, 40), counts=(1, 4, 8)),
    cells=Cells(
        Corpus(20_000, IMAGE_BYTES, 200),
        Corpus(8, SHARD_BYTES, 1),
        Corpus(20_000, SMALL_BYTES, 200),
        Corpus(12, SHARD_BYTES, 1),
    ),
    finding=Finding(files=48, windows=60, window=10.0, turns=7, skipped=8.0, counted=20.0),
    second=(Corpus(20_000, SMALL_BYTES, 200), Corpus(20_000, TINY_BYTES, 20)),
    profiled=Corpus(2_000, SMALL_BYTES, 20),
    known=Corpus(100_000, SMALL_BYTES, 1_000),
    plane=Plane((100, 500, 1_000, 2_500, 5_000), everywhere=20, changes=10, churn_seconds=60.0, pods=1_000, probes=5),
    sharing=replace(_SHARING, corpora=(*_SHARING.corpora, _LARGER)),
    herd=HerdSize(500, 2_000),
    faults=10_000,
)
# Sizes at which a workload takes some minutes and the figures that matter have several samples each.
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
    second=(Corpus(4_000, SMALL_BYTES, 40), Corpus(10_000, TINY_BYTES, 10)),
    known=Corpus(10_000, SMALL_BYTES, 100),
    plane=Plane((100, 500, 1_000), everywhere=10, changes=4, churn_seconds=10.0, pods=100, probes=2),
)
SCALES = {"quick": _QUICK, "brief": _BRIEF, "default": _DEFAULT, "full": _FULL}
