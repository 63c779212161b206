"""The training scripts in examples/workloads: they run, and read in the order that their annotation declares."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker_api import names
from stoker_api.jobs.sampling import parse_sampling_text
from stoker_orders.sampling_plan import SamplingPlan
from tests.support.pythons import DEBIANS_PYTHON, OUR_PYTHON, TRAINERS_PYTHON
from tests.support.workload_examples import documents, image_folder, scripts

# Ray and TensorFlow are not installed for tests.
pytestmark = pytest.mark.timeout(300)
_RUN = {
    "job": (DEBIANS_PYTHON, "train.py"),
    "lightning": (TRAINERS_PYTHON, "lightning_train.py"),
    "huggingface": (TRAINERS_PYTHON, "huggingface_train.py"),
    "jax": (OUR_PYTHON, "jax_train.py"),
}
_SECONDS = 240.0  # some take ten on an idle machine
# Python imports it first. It logs each opened image, also in forked loaders. Lightning imports sharded tensors, which
# Debian's PyTorch 1.13 cannot under Python 3.11.
_SITE = """
import os, sys, types

log = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".png"):
        os.write(log, f"{arguments[0]}\\n".encode())

sys.addaudithook(watch)
tensors = types.ModuleType("torch.distributed._shard.sharded_tensor")
tensors.state_dict_hook = tensors.pre_load_state_dict_hook = print
sys.modules[tensors.__name__] = tensors
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the images to train on."""
    root: Path = tmp_path_factory.mktemp("data")
    for name, content in image_folder(3, 100).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def opened(python: Path, script: str, data: Path, folder: Path) -> list[str]:
    """Run a script. Return the images that it opened, in order, relative to the data."""
    for name, text in (scripts() | {"sitecustomize.py": _SITE}).items():
        (folder / name).write_text(text)
    log = folder / "opened"
    environment = {"DATA": str(data), "CHECKPOINTS": str(folder), "OPENED": str(log), "PYTHONPATH": str(folder)}
    environment |= {"OMP_NUM_THREADS": "1"}  # more threads than cores slow each other down
    words = [str(python), str(folder / script)]
    done = subprocess.run(
        words, env=os.environ | environment, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "loss" in done.stdout.splitlines()[-1]
    return [str(Path(line).relative_to(data)) for line in log.read_text().splitlines()]


def declared(name: str) -> SamplingPlan:
    """Return the order in the annotation of an example's Job."""
    (job,) = (one for one in documents(name) if one["kind"] == "Job")
    notes = job["spec"]["template"]["metadata"]["annotations"]
    return parse_sampling_text(notes[names.ANNOTATION_SAMPLING]).plan()


def mean_distance(read: Sequence[str], expected: Sequence[str]) -> float:
    """Return the mean distance of files from their expected places. It is a third of their number at random."""
    places = {name: place for place, name in enumerate(expected)}
    return sum(abs(places[name] - place) for place, name in enumerate(read)) / len(expected)


@pytest.mark.parametrize("name", _RUN)
def test_a_script_reads_each_epoch_in_the_declared_order(name: str, data: Path, tmp_path: Path) -> None:
    plan = declared(name)
    files = sorted(str(path.relative_to(data)) for path in data.glob(f"{plan.files.path}/*/*"))
    read = opened(*_RUN[name], data, tmp_path)
    assert len(read) == plan.epochs * len(files)
    ahead = plan.batch * max(plan.loaders, 1)  # loaders read their batches at the same time
    for epoch in range(plan.epochs):
        expected = [files[sample] for sample in plan.order_of(len(files), epoch, (0,))]
        own = read[epoch * len(files) : (epoch + 1) * len(files)]
        assert mean_distance(own, expected) < ahead < len(files) / 4, f"epoch {epoch}"


@pytest.mark.parametrize("name", sorted(scripts()))
def test_a_script_compiles(name: str) -> None:
    compile(scripts()[name], name, "exec")
