"""A sampler reports its order to the node in a form that the node parses, and only if the order is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler, TrainingReport, WarmFirstSampler
from stoker_client.internal.order_text import order_text, sampler_of
from stoker_client.internal.report_socket import ReportSocket
from stoker_orders.job_order import JobOrder
from stoker_orders.loader_schedule import Loading, rank_order
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import SampleFiles, SampleLayout
from stoker_sidecar.agent.orders.reported_plans import ReportedOrder, parse_reported_sampling, plan_of
from stoker_tuning.reports.line import parse_line
from tests.unit.stoker_client.samplers import Plan, plans

FILES = {"layout": "Shards", "path": "*.bin"}


class DistributedSampler:
    """The attributes of PyTorch's distributed sampler."""

    seed, epoch, num_replicas, rank, shuffle, drop_last = 42, 3, 4, 1, True, False


class SequentialSampler:
    """The attributes of PyTorch's sequential sampler."""


for _kind in (DistributedSampler, SequentialSampler):
    _kind.__module__ = "torch.utils.data"


@dataclass
class LoaderStandIn:
    """The attributes of a DataLoader."""

    sampler: Any
    dataset: Any
    batch_size: int = 16
    num_workers: int = 8
    batch_sampler: Any = None


@dataclass
class ImageFolder:
    """The attributes of torchvision's ImageFolder."""

    root: str
    samples: list[tuple[str, int]] = field(default_factory=lambda: [("a/b.jpg", 0)])


class Lines(ReportSocket):
    """A socket that records the lines sent."""

    def __init__(self) -> None:
        super().__init__("somewhere")
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> bool:
        self.sent.append(data)
        return True


@given(plans(("global", "group", "quality")), st.integers(0, 5), st.data())
def test_a_node_computes_what_is_read_from_what_is_said(made: Plan, epoch: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, made.world_size - 1))
    sampler = Plan(**{**vars(made), "warm": None}).make(rank, epoch)
    if data.draw(st.booleans()):
        sampler.load_state_dict(sampler.state_dict(data.draw(st.integers(0, len(sampler)))))
    position = sampler.state_dict()["position"]
    said = parse_reported_sampling(order_text(sampler, None, (rank, made.world_size), files=FILES))
    plan = plan_of(said, ReportedOrder("", rank, 1, made.world_size))
    order = JobOrder(plan, FileMap(range(made.length)), (rank,))
    samples = order.epoch(plan.start.epoch).samples
    assert plan.start.position == position
    assert rank_order(samples, _loading(order, samples), rank)[position:] == list(sampler)


def _loading(order: JobOrder, samples: Sequence[int]) -> Loading:
    return replace(order.loading, samples=len(samples))


def test_a_data_loader_says_batch_and_workers_and_where_files_are(tmp_path: Path) -> None:
    lines = Lines()
    report = TrainingReport(rank=1, world_size=4, socket=lines)
    report.order_of(LoaderStandIn(DistributedSampler(), ImageFolder(str(tmp_path / "train"))), dataset="imagenet")
    (line,) = lines.sent
    said = parse_reported_sampling(_sampling(line))
    assert (said.sampler, said.seed, said.epoch, said.ranks) == ("torch-distributed", 42, 3, 4)
    assert (said.batch, said.loaders, said.dataset) == (16, 8, "imagenet")
    assert (said.files.layout, said.files.path.rpartition("/")[2]) == (SampleLayout.IMAGE_FOLDER, "train")


def test_files_may_be_said_by_the_user() -> None:
    text = order_text(SequentialSampler(), None, (0, 1), files=FILES)
    assert parse_reported_sampling(text).plan().files == SampleFiles(SampleLayout.SHARDS, "*.bin")


class OwnSampler:
    """A custom sampler. A plug-in of the same team knows its order."""

    rank, world_size = 1, 4

    def sampling(self) -> dict[str, object]:
        return {"sampler": "plugin:mine", "seed": 7, "epoch": 2, "ranks": 4, "parameters": {"deal": "blocks"}}


def test_a_sampler_of_ones_own_says_the_plug_in_that_knows_its_order() -> None:
    plan = parse_reported_sampling(order_text(OwnSampler(), None, (1, 4), batch=16, files=FILES)).plan()
    asked = plan.question(100, plan.start.epoch)
    assert (plan.plugin, asked.seed, asked.epoch, asked.ranks, asked.batch) == ("mine", 7, 2, 4, 16)
    assert asked.parameters == (("deal", "blocks"),)


def _sampling(line: bytes) -> str:
    return parse_line(line).sampling or ""


@pytest.mark.parametrize(
    ("sampler", "data", "files"),
    [
        (GlobalShuffleSampler(100, rank=0, world_size=1), None, None),  # the paths of the files are unknown
        (GlobalShuffleSampler(100, rank=0, world_size=1), range(100), None),
        (GlobalShuffleSampler(100, rank=1, world_size=2), None, FILES),  # its batches are distributed again
        (object(), None, FILES),
        (GroupShuffleSampler(10, [5, 2, 3], rank=0, world_size=1), None, FILES),
        (GlobalShuffleSampler(100, rank=0, world_size=1), None, {"layout": "Shards", "path": "x" * 600}),
        (WarmFirstSampler(100, lambda index: index % 3 == 0, rank=0, world_size=1), None, FILES),
    ],
)
def test_what_no_node_can_know_is_not_said(sampler: Any, data: Any, files: Any) -> None:
    assert order_text(sampler, data, (0, 1), files=files) == ""


@pytest.mark.parametrize("answer", [True, False])
def test_where_all_is_alike_warm_first_is_the_plain_order_and_is_asked_once(answer: bool) -> None:
    asked: list[int] = []

    def warm(index: int) -> bool:
        asked.append(index)
        return answer

    sampler = WarmFirstSampler(100, warm, rank=0, world_size=1)
    assert "stoker-shuffle" in order_text(sampler, None, (0, 1), files=FILES)
    assert list(sampler) == list(GlobalShuffleSampler(100, rank=0, world_size=1))
    assert len(asked) == 100
    list(sampler)
    assert len(asked) == 200


def test_an_order_that_is_no_longer_known_is_taken_back() -> None:
    lines = Lines()
    report = TrainingReport(rank=0, world_size=1, socket=lines)
    known = GlobalShuffleSampler(100, rank=0, world_size=1)
    report.order(known, files=FILES)
    report.order(object(), files=FILES)
    report.order(object(), files=FILES)
    assert [bool(_sampling(line)) for line in lines.sent] == [True, False]
    assert b'"sampling": ""' in lines.sent[1]


class BatchSampler:
    """The attributes of PyTorch's batch sampler and of its replacements, such as Accelerate's."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler


def test_a_sampler_counts_where_pytorch_makes_the_batches_of_it() -> None:
    loader, used = LoaderStandIn(SequentialSampler(), None), DistributedSampler()
    assert sampler_of(loader) is loader.sampler
    loader.batch_sampler = BatchSampler(used)
    assert sampler_of(loader) is None
    BatchSampler.__module__ = "torch.utils.data.sampler"
    assert sampler_of(loader) is used


def test_validation_says_no_order() -> None:
    lines = Lines()
    report = TrainingReport(rank=0, world_size=1, socket=lines)
    sampler = GlobalShuffleSampler(100, rank=0, world_size=1)

    class Batches(LoaderStandIn):
        def __iter__(self) -> Any:
            return iter([1])

    for _ in report.loader(Batches(sampler, None), split="validation", files=FILES):
        pass
    report.flush()
    assert not any(_sampling(line) for line in lines.sent)
    for _ in report.loader(Batches(sampler, None), files=FILES):
        pass
    assert any(_sampling(line) for line in lines.sent)
