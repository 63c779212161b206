"""stoker-client as in training images: its wheel, real libraries, and a node's real listener at the socket."""

import asyncio
import compileall
import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler
from stoker_client.sampler import EpochSampler
from stoker_orders.job_order import JobOrder
from stoker_orders.loader_schedule import rank_order
from stoker_orders.sample_map import FileMap
from stoker_sidecar.agent.orders.reported_plans import ReportedOrder, parse_reported_sampling, plan_of
from stoker_sidecar.helpers.reports.listener import ReportListener
from stoker_tuning.reports.figures import ReportSummary
from tests.support.pythons import TRAINERS_PYTHON
from tests.support.waiting import eventually

_CLIENT = Path(__file__).resolve().parents[3] / "client"
_PROGRAMS = Path(__file__).parent / "programs"
_DEBIANS_PYTHON = "/usr/bin/python3"
_SECONDS = 60.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as a release does, with the installed packages."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(_CLIENT)], check=True, timeout=_SECONDS)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the content of the wheel, for the path of any Python."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(words: Sequence[str], cwd: Path, **variables: str) -> str:
    """Run a program. Return its output."""
    environment = os.environ | {"HF_HOME": str(cwd), "HF_HUB_OFFLINE": "1"} | variables
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_wheel_is_for_any_python_from_3_9_on_and_needs_nothing(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith("/METADATA")]
    assert {"stoker_client/__init__.py", "stoker_client/py.typed"} <= set(names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"stoker_client"}
    assert "Requires-Python: >=3.9\n" in metadata
    assert "Requires-Dist" not in metadata


def test_it_is_installed_into_an_environment_that_has_nothing_else(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "clean", symlinks=True)
    python = tmp_path / "clean" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--disable-pip-version-check"]
    run([*pip, "--no-index", str(wheel)], tmp_path)
    code = "import stoker_client as s; print(sorted(s.QualityRatioSampler(4, 1.0)), s.__file__)"
    printed = run([str(python), "-I", "-c", code], tmp_path)
    assert printed.startswith("[0, 1, 2, 3] ")
    assert str(tmp_path) in printed


def test_all_of_it_compiles(installed: Path) -> None:
    assert compileall.compile_dir(installed / "stoker_client", quiet=1, force=True)


async def _listened(
    root: Path, words: Sequence[str], cwd: Path, last: Callable[[ReportSummary], bool], **variables: str
) -> tuple[str, ReportSummary]:
    """Run a program with a node's listener at its socket. Return its output, and the last report."""
    (root / "pod").mkdir(parents=True)
    listener = ReportListener(root)
    listener.listen_for({"pod": "vision"})
    try:
        variables["STOKER_REPORT_SOCKET"] = str(root / "pod" / "report.sock")
        printed = await asyncio.to_thread(run, words, cwd, **variables)
        heard: list[ReportSummary] = []

        def whole() -> bool:
            heard.extend(listener.take_news().pods.values())
            return bool(heard) and last(heard[-1])

        await eventually(whole, _SECONDS)
        return printed, heard[-1]
    finally:
        listener.close()


def _orders(sampler: EpochSampler, epochs: int) -> list[list[int]]:
    """Return the samples of a sampler in its first epochs."""
    orders = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
    return orders


async def test_pytorch_goes_on_in_the_middle_of_an_epoch_and_the_node_hears_of_it(
    installed: Path, tmp_path: Path
) -> None:
    words = [_DEBIANS_PYTHON, str(_PROGRAMS / "sampled.py")]
    run([*words, "40"], tmp_path, PYTHONPATH=str(installed))  # of 32 batches per epoch
    printed, heard = await _listened(
        tmp_path / "node", [*words, "-1"], tmp_path, lambda one: one.step == 96, PYTHONPATH=str(installed)
    )
    sampler = GroupShuffleSampler(500, 8, reservoir=16, seed=5, rank=0, world_size=1)
    assert json.loads(printed) == _orders(sampler, 3)
    assert (heard.phase, heard.epoch, heard.epochs, heard.step) == ("Training", 2, 3, 96)
    assert (heard.framework, heard.batch_size, heard.refused, heard.problem) == ("pytorch", 16, 0, "")
    assert heard.loss == f"{1 / 96:.4g}"
    said = parse_reported_sampling(heard.sampling)
    assert (said.sampler, said.seed, said.group_size, said.reservoir) == ("stoker-group-shuffle", 5, 8, 16)
    assert (said.epoch, said.batch, said.loaders, said.files.path) == (2, 16, 2, "numbers/*")


# Orders that no node can know: of several ranks, and of one. An unshuffled one reads its data in order.
_UNKNOWN = {"not even_batches", "not seedable", "not shuffled"}
_UNKNOWN_ALONE = {"not seedable", "Trainer, not seedable"}


async def test_the_trainer_of_hugging_face_reads_as_it_says_and_the_node_hears_of_it(
    installed: Path, tmp_path: Path
) -> None:
    words = [str(TRAINERS_PYTHON), "-W", "ignore", str(_PROGRAMS / "trained.py")]
    printed, heard = await _listened(
        tmp_path / "node", words, tmp_path, lambda one: one.step == 22, PYTHONPATH=str(installed)
    )
    trained = json.loads(printed.splitlines()[-1])
    assert [one for one in trained if not _is_read_as_said(*one)] == []
    unsaid = {(name, ranks) for name, _, ranks, _, epochs in trained if not all(said for said, _ in epochs)}
    assert unsaid == {(name, 3) for name in _UNKNOWN} | {(name, 1) for name in _UNKNOWN_ALONE}
    assert (heard.phase, heard.epoch, heard.epochs, heard.step) == ("Training", 1, 2, 22)
    assert (heard.framework, heard.batch_size, heard.refused, heard.problem) == ("transformers", 4, 0, "")
    assert heard.loss
    assert heard.learning_rate is not None
    said = parse_reported_sampling(heard.sampling)
    assert (said.sampler, said.seed, said.epoch, said.batch) == ("accelerate-seedable", 2026, 1, 4)


def _is_read_as_said(name: str, samples: int, ranks: int, rank: int, epochs: list[tuple[str, list[int]]]) -> bool:
    """Return True if each epoch is read as a node predicts from the report, if there is one."""
    plans = [plan_of(parse_reported_sampling(said), ReportedOrder("", rank, 1, ranks)) for said, _ in epochs if said]
    orders = [JobOrder(plan, FileMap(range(samples)), (rank,)) for plan in plans]
    numbers = [order.plan.start.epoch for order in orders if not order.is_same_each_epoch]
    assert numbers in ([], [0, 1]), name
    return [_read(order, rank) for order in orders] == [read for said, read in epochs if said]


def _read(order: JobOrder, rank: int) -> list[int]:
    """Return a rank's reads as predicted by a node."""
    epoch = order.epoch(order.plan.start.epoch).samples
    return rank_order(epoch, replace(order.loading, samples=len(epoch)), rank)


_FETCH = 0.05  # seconds until a batch of the programs below arrives


def _epochs(samples: int = 40, rank: int = 0, ranks: int = 1) -> list[list[int]]:
    """Return the samples that the programs below read."""
    return _orders(GlobalShuffleSampler(samples, seed=11, rank=rank, world_size=ranks), 2)


async def test_processes_of_lightning_each_train_on_their_part_and_the_node_hears_of_it(
    installed: Path, tmp_path: Path
) -> None:
    words = [str(TRAINERS_PYTHON), "-W", "ignore", str(_PROGRAMS / "lightning_trained.py")]
    # The whole run takes a second, in which the client drops some lines, so some steps of the last epoch are missing.
    _, heard = await _listened(
        tmp_path / "node", words, tmp_path, lambda one: one.epoch == 1, PYTHONPATH=str(installed)
    )
    for rank in range(2):
        seen, waits = json.loads((tmp_path / f"{rank}.json").read_text())
        assert seen == _epochs(80, rank, 2)
        assert len(waits) == 10
        assert min(waits) >= _FETCH
    assert (heard.framework, heard.epochs, heard.batch_size) == ("lightning", 2, 8)
    assert (heard.ranks, heard.world_size, heard.learning_rate) == (2, 2, 0.25)
    assert (heard.refused, heard.problem, bool(heard.loss)) == (0, "", True)
    said = parse_reported_sampling(heard.sampling)
    assert (said.sampler, said.seed, said.epoch, said.batch, said.ranks) == ("stoker-shuffle", 11, 1, 8, 2)


async def test_keras_on_jax_says_what_its_callbacks_see_and_the_node_hears_of_it(
    installed: Path, tmp_path: Path
) -> None:
    words = [sys.executable, "-W", "ignore", str(_PROGRAMS / "keras_trained.py")]
    # The whole run takes a second, in which the client drops some lines, so some steps of the last epoch are missing.
    printed, heard = await _listened(
        tmp_path / "node", words, tmp_path, lambda one: one.epoch == 1, PYTHONPATH=str(installed)
    )
    seen, waits = json.loads(printed.splitlines()[-1])
    assert seen == _epochs()
    assert waits == []  # this backend does not report them to callbacks
    assert (heard.framework, heard.epoch, heard.epochs, heard.learning_rate) == ("keras", 1, 2, 0.25)
    assert (heard.refused, heard.problem) == (0, "")
    assert heard.loss


def test_grain_reads_an_epoch_by_its_places(installed: Path, tmp_path: Path) -> None:
    printed = run([sys.executable, str(_PROGRAMS / "grained.py")], tmp_path, PYTHONPATH=str(installed))
    assert json.loads(printed) == [[10 * index for index in epoch] for epoch in _epochs()]


def test_pytorch_is_trained_the_same_without_a_node(installed: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "nobody.sock")
    words = [_DEBIANS_PYTHON, str(_PROGRAMS / "sampled.py"), "-1"]
    printed = run(words, tmp_path, PYTHONPATH=str(installed), STOKER_REPORT_SOCKET=missing)
    assert [sorted(epoch) for epoch in json.loads(printed)] == [list(range(500))] * 3


def test_datasets_are_read_in_the_order_of_samplers(tmp_path: Path) -> None:
    printed: dict[str, Any] = json.loads(run([sys.executable, str(_PROGRAMS / "sharded.py")], tmp_path))
    assert printed["mapped"] == list(GlobalShuffleSampler(40, seed=2, rank=0, world_size=1))
    shards = GlobalShuffleSampler(8, seed=3, rank=0, world_size=1)
    assert printed["sharded"] == [row for shard in shards for row in range(5 * shard, 5 * shard + 5)]
