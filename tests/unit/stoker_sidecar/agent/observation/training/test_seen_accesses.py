"""Which accesses are informative, and their share of all accesses."""

from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_sidecar.agent.observation.training.pod_training import (
    ACCESSES_A_SECOND,
    FollowBudget,
    SeenShare,
    is_resampled,
    seen_accesses,
)
from stoker_sidecar.agent.questions.reading.reading import ReaderBatch
from stoker_sidecar.wire.access_protocol import AccessRow
from stoker_tuning.training.accesses import AccessSampling, SamplingMethod
from stoker_tuning.training.layout import CHUNK, DatasetLayout, FileFact, make_layout
from tests.support.cases import cases

OPEN, READ = AccessRow(1.0, 2, 0, 0, 7), AccessRow(1.5, 2, 4096, 100, 7)
SMALL = make_layout([FileFact(2, "train/a.jpg", 1000)])
LARGE = make_layout([FileFact(2, "train/a.tar", 10 * CHUNK)])
MODEL = make_layout([FileFact(2, "model.safetensors", 1000)])


def batch(until: float = 2.0, **fields: float) -> ReaderBatch:
    values = {"opens": 10.0, "share": 1.0, "reads": 10.0, "files": 1.0} | fields
    return ReaderBatch(until - 1.0, until, rows=(OPEN, READ), **values)


@cases(
    "layout, source, lengths",
    (SMALL, EvidenceSource.FUSE, [0]),
    (LARGE, EvidenceSource.FUSE, [100]),
    (MODEL, EvidenceSource.FUSE, [100]),
    (SMALL, EvidenceSource.FANOTIFY, [0]),
    (MODEL, EvidenceSource.FANOTIFY, [0]),
)
def test_files_count_by_opens_and_chunks_and_models_by_reads(
    layout: DatasetLayout, source: EvidenceSource, lengths: list[int]
) -> None:
    assert [access.length for access in seen_accesses(layout, source, batch())] == lengths


def test_nothing_is_seen_after_the_batch_it_came_in() -> None:
    (access,) = seen_accesses(LARGE, EvidenceSource.FUSE, batch(until=1.2))
    assert access.seconds == 1.2


def sampling(kept: int, **fields: float) -> AccessSampling:
    share = SeenShare()
    share.add(batch(**fields), kept, of_reads=False)
    return share.sampling(2.0)


@cases(
    "kept, fields, expected",
    (10, {}, AccessSampling()),
    (10, {"share": 0.25, "files": 0.25}, AccessSampling(SamplingMethod.FILES, 0.25)),
    (10, {"share": 0.25}, AccessSampling(SamplingMethod.TIME, 0.25, 1.0)),
    (5, {}, AccessSampling(SamplingMethod.TIME, 0.5, 1.0)),
    (0, {}, AccessSampling()),
)
def test_the_sample_is_said_as_it_is(kept: int, fields: dict[str, float], expected: AccessSampling) -> None:
    assert sampling(kept, **fields) == expected


def test_a_share_that_hardly_moves_is_the_same() -> None:
    before = AccessSampling(SamplingMethod.TIME, 0.5)
    assert not is_resampled(before, AccessSampling(SamplingMethod.TIME, 0.55))
    assert is_resampled(before, AccessSampling(SamplingMethod.TIME, 0.2))
    assert is_resampled(AccessSampling(), before)


def test_a_reader_is_looked_at_as_much_as_its_budget_grants() -> None:
    budget = FollowBudget(0.0, share=0.1)
    granted = sum(budget.grant(float(second), 10_000) for second in range(100))
    assert granted <= (100 + 10) * 0.1 * ACCESSES_A_SECOND


def test_a_clock_that_goes_back_grants_nothing_more() -> None:
    budget = FollowBudget(100.0)
    budget.grant(100.0, 1_000_000)
    assert budget.grant(0.0, 1) == 0
