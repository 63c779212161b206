"""The contract of every predictor of orders, built in or a plug-in. Above all, it equals the real library's order."""

import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest

from stoker_orders.builtin_orders import BuiltInOrder
from stoker_orders.job_order import JobOrder
from stoker_orders.loader_schedule import Loading, rank_order
from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.samplers import SamplerName, sampler_named, sampler_of
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import SamplingPlan
from stoker_plugins.asking import ask
from stoker_plugins.discovery import PluginKind, installed_plugins
from stoker_plugins.order_questions import EpochQuestion
from tests.contract.stoker_orders import real_libraries as real

ROOT = Path(__file__).resolve().parents[3]
SIZES = (1, 2, 3, 10, 1000, 65_537)
SEEDS = (0, 3, 42, 2**32 - 1, 2**40 + 7, 2**53 - 1)
ALONE = tuple(OrderQuestion(size, seed, epoch) for size in SIZES for seed in SEEDS for epoch in (0, 5))
SHARED = (
    *(OrderQuestion(997, 3, 1, ranks, drop_last=drop) for ranks in (2, 3, 8) for drop in (False, True)),
    OrderQuestion(5, 1, 0, ranks=16),  # fewer samples than ranks
    OrderQuestion(1000, 2**32 - 3, 2, ranks=7),
)
# The number of samples gives complete rounds of batches, complete batches without a complete round, or neither, and
# also less than one batch per rank.
BATCHES = tuple(
    OrderQuestion(size, seed, 3, ranks, batch, drop_last=drop)
    for size, seed in ((96, 5), (100, 2**40 + 7), (997, 42))
    for ranks in (1, 2, 3, 8)
    for batch in (1, 4)
    for drop in (False, True)
)
DEALT = (*BATCHES, *(OrderQuestion(5, 7, 0, ranks, 4) for ranks in (1, 2, 3)), OrderQuestion(65_537, 11, 2, 8, 64))
MANY = (OrderQuestion(2_000_000, 11, 2),)
# Small epochs: each is read completely before the next one has an order.
STATEFUL = tuple(
    OrderQuestion(size, seed, epoch) for size in (1, 2, 65, 1000) for seed in SEEDS[:3] for epoch in (0, 3)
)
_SMALL = tuple(replace(one, seed=one.seed % 2**31) for one in ALONE)
Tell = Callable[[OrderQuestion], "array[int]"]


@dataclass(frozen=True)
class Predictor:
    """A predictor, its real library, and its cases. ``name`` is as in a sampling."""

    name: str
    truth: real.Truth
    asked: Sequence[OrderQuestion]
    parameters: tuple[tuple[str, str], ...] = ()

    def questions(self) -> list[OrderQuestion]:
        return [replace(one, parameters=self.parameters) for one in self.asked]

    def question(self, **changed: object) -> OrderQuestion:
        usual = OrderQuestion(samples=997, seed=3, parameters=self.parameters)
        return replace(usual, **changed)  # type: ignore[arg-type]


_GROUPS = (("groupSize", "16"), ("reservoir", "32"))
PREDICTORS = (
    Predictor("torch-distributed", real.torch("distributed"), (*ALONE, *SHARED, replace(MANY[0], ranks=8))),
    Predictor("torch-sequential", real.torch("sequential"), (*ALONE[-12:], *SHARED)),
    Predictor("torch-random", real.torch("generator"), (*STATEFUL, OrderQuestion(65_537, 7, 1))),
    Predictor("accelerate-seedable", real.accelerate("seedable"), (*ALONE, *DEALT, *MANY)),
    Predictor("accelerate-seedable", real.accelerate("seedable_parts"), DEALT),
    Predictor("huggingface-shuffle", real.hugging_face, (*ALONE[1::2], *SHARED, replace(MANY[0], samples=300_000))),
    Predictor("numpy-permutation", real.numpy_permutation, (*ALONE, *SHARED, *MANY)),
    Predictor("file-list", real.listed, ALONE[-12:]),
    Predictor("stoker-shuffle", real.client("global"), (*ALONE[:48], *SHARED, *MANY)),
    Predictor("stoker-group-shuffle", real.client("group"), (*ALONE[:48], *SHARED, *MANY), _GROUPS),
    Predictor("stoker-quality-ratio", real.client("quality"), (*ALONE[36:60], *SHARED[:6], *MANY), (("ratio", "1/2"),)),
    Predictor("plugin:numpy-legacy", real.numpy_legacy, (*_SMALL[::9], *SHARED[::2], OrderQuestion(1_300_000, 7, 1))),
    Predictor("plugin:numpy-legacy", real.numpy_legacy, SHARED[:3], (("deal", "blocks"),)),
)
each = pytest.mark.parametrize("predictor", PREDICTORS, ids=lambda one: "-".join([one.name, *dict(one.parameters)]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example of an order plug-in as a separate package."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
    source = str(ROOT / "examples" / "order_plugin")
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), source], check=True, timeout=100)
    return target


@pytest.fixture
def tell(predictor: Predictor, site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tell]:
    """Call the predictor as a node calls plug-ins. The node's validation checks each answer."""
    if isinstance(sampler := sampler_named(predictor.name), SamplerName):
        builtin = BuiltInOrder(sampler)
        yield lambda asked: EpochQuestion(asked).read(builtin.name, EpochQuestion(asked).answer(builtin))
        return
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    (plugin,) = (one for one in installed_plugins(PluginKind.ORDER) if one.name == sampler.name)
    yield lambda asked: ask(plugin, EpochQuestion(asked))


def shares(order: "array[int]", asked: OrderQuestion) -> list[list[int]]:
    """Return each rank's reads of an order, as nodes interpret it."""
    loading = Loading(len(order), asked.ranks, (), drop_last=asked.drop_last)
    return [rank_order(order, loading, rank) for rank in range(asked.ranks)]


@each
def test_it_is_the_order_of_the_real_library(predictor: Predictor, tell: Tell) -> None:
    questions = predictor.questions()
    told = [[real.digest(share) for share in shares(tell(one), one)] for one in questions]
    truth = predictor.truth(questions)
    assert [one for one, own, other in zip(questions, told, truth, strict=True) if own != other] == []


@each
def test_it_is_the_same_whenever_it_is_asked_for(predictor: Predictor, tell: Tell) -> None:
    asked = predictor.question(epoch=2, ranks=3, batch=4)
    first = tell(asked)
    tell(replace(asked, epoch=1))
    assert tell(asked) == first


@each
@pytest.mark.parametrize("drop_last", [False, True])
def test_all_ranks_read_as_many_and_each_sample_no_more_often_than_rounds_need(
    predictor: Predictor, tell: Tell, drop_last: bool
) -> None:
    asked = predictor.question(epoch=1, ranks=8, batch=2, drop_last=drop_last)
    own = shares(tell(asked), asked)
    assert len({len(share) for share in own}) == 1
    read = [sample for share in own for sample in share]
    whole = 997 // 2 if predictor.name == "stoker-quality-ratio" else 997
    round_ = 16 if predictor.name == "accelerate-seedable" else 8
    if drop_last or ("deal", "blocks") in predictor.parameters:
        assert len(set(read)) == len(read)
        assert whole - round_ < len(read) <= whole
    else:
        assert whole - round_ < len(set(read)) <= len(read) < whole + round_
        assert predictor.name == "stoker-quality-ratio" or set(read) == set(range(997))


@each
def test_other_seeds_and_epochs_have_other_orders_where_the_sampler_has_them(predictor: Predictor, tell: Tell) -> None:
    name = sampler_named(predictor.name)
    one = tell(predictor.question())
    has_seeds = not sampler_of(name).seedless
    has_epochs = has_seeds and name is not SamplerName.HUGGINGFACE_SHUFFLE
    assert (tell(predictor.question(seed=4)) != one) is has_seeds
    assert (tell(predictor.question(epoch=1)) != one) is has_epochs


@pytest.mark.parametrize("predictor", [one for one in PREDICTORS if "plugin" not in one.name], ids=lambda one: one.name)
@pytest.mark.parametrize(("ranks", "drop_last"), [(1, False), (3, False), (3, True)])
def test_nodes_compute_the_same_in_their_own_process(
    predictor: Predictor, tell: Tell, ranks: int, drop_last: bool
) -> None:
    asked = predictor.question(epoch=2, ranks=ranks, batch=4, drop_last=drop_last)
    said = dict(asked.parameters)
    plan = SamplingPlan(
        SamplerName(predictor.name),
        seed=3,
        batch=4,
        ranks=ranks,
        drop_last=drop_last,
        group=int(said.get("groupSize", 1)),
        reservoir=int(said.get("reservoir", 256)),
        ratio=Fraction(said.get("ratio", "1")),
    )
    job = JobOrder(plan, FileMap(range(asked.samples)), tuple(range(ranks)))
    samples = job.epoch(2).samples
    loading = replace(job.loading, samples=len(samples))
    assert [rank_order(samples, loading, rank) for rank in range(ranks)] == shares(tell(asked), asked)


def test_every_built_in_sampler_is_held_to_this() -> None:
    assert {one.name for one in PREDICTORS} >= set(SamplerName)


def test_loaders_of_pytorch_take_batches_in_turns() -> None:
    [who] = real.torch_says([("loaded", 50, 4, 3)])
    assert who == [index // 4 % 3 for index in range(50)]
