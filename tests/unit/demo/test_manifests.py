"""The manifests and arguments of the demo."""

import json
from pathlib import Path

import pytest
import yaml

from examples.demo.__main__ import parser, up
from examples.demo.epochs import SAMPLING
from examples.demo.place import ROOT, DemoError, Image, Place, Store, existing
from examples.demo.session import Session
from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.sampling import Sampling
from stoker_api.jobs.trainingjob import TrainingJob

PHOTOS = ROOT / "examples" / "photos"
STORE = Store("http://slow:1", "http://fast:1", "us-east-1", "key", "secret")
SESSION = Session(Place({}, STORE, Image("stoker:demo", "Never"), Image("training:demo", "Never")))
SETTINGS = ("IMAGE", "DEMO_IMAGE", "S3_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def test_the_manifests_fit_the_api() -> None:
    dataset = Dataset.model_validate(SESSION.manifest("dataset.yaml", "cold"))
    assert (dataset.metadata.name, dataset.spec.source.endpoint) == ("cold", "http://slow:1")
    TrainingJob.model_validate(SESSION.manifest("trainingjob.yaml", "wrong-seed"))


def test_the_line_of_step_2_is_that_of_the_example_and_of_the_program() -> None:
    Sampling.model_validate(SAMPLING)
    assert f"stoker.dev/sampling: '{json.dumps(SAMPLING)}'" in (PHOTOS / "job.yaml").read_text(encoding="utf-8")
    values = f"SEED, BATCH, LOADERS, PIXELS = {SAMPLING['seed']}, {SAMPLING['batch']}, {SAMPLING['loaders']}, "
    assert values in (PHOTOS / "train.py").read_text(encoding="utf-8")


def test_the_training_job_has_another_seed_and_is_the_same_otherwise() -> None:
    job = yaml.safe_load((PHOTOS / "trainingjob.yaml").read_text(encoding="utf-8"))
    assert job["spec"]["sampling"] == SAMPLING | {"seed": SAMPLING["seed"] + 1}


def test_an_existing_cluster_names_all_missing_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in ("kubectl", "helm"):
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DemoError) as raised:
        existing()
    assert [line.split(":")[0].strip() for line in str(raised.value).splitlines()[1:]] == list(SETTINGS)


def test_the_demo_takes_a_cluster_and_a_number_of_nodes() -> None:
    options = parser().parse_args(["up", "--cluster", "mine", "--nodes", "3"])
    assert (options.cluster, options.nodes, options.run) == ("mine", 3, up)
