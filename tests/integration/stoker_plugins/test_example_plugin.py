"""The example of a plug-in, built and installed as a separate package, and called through the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
    source = str(ROOT / "examples" / "framework_plugin")
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), source], check=True, timeout=100)
    return target


def stoker(site: Path, *words: str) -> Any:
    code = "from stoker_cli.main import main; main()"
    command = [sys.executable, "-c", code, "tuning", *words, "-o", "json"]
    run = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, check=True, timeout=60
    )
    return json.loads(run.stdout)


def test_it_is_found_and_tells_its_framework_and_the_batch_size(installed: Path, tmp_path: Path) -> None:
    model, pod = tmp_path / "model.pdparams", tmp_path / "pod.yaml"
    model.write_bytes(b"")
    container = {"name": "c", "image": "paddle:3", "env": [{"name": "FLAGS_batch_size", "value": "64"}]}
    pod.write_text(json.dumps({"spec": {"containers": [container]}}))
    found = {one["name"]: one for one in stoker(installed, "plugins", str(model), "--pod", str(pod))}
    assert set(found) == {"pytorch", "tensorflow", "jax", "huggingface", "paddle"}
    paddle = found["paddle"]
    assert (paddle["from"], paddle["leftOutBecause"]) == ("stoker-paddle 0.1.0", None)
    assert (paddle["confidence"], paddle["hints"]) == (0.9, {"batch_size": 64})
    assert found["pytorch"]["confidence"] == 0


def test_its_rules_count_for_workloads_of_its_framework(installed: Path, tmp_path: Path) -> None:
    document = tmp_path / "mine.yaml"
    document.write_text("apiVersion: stoker.dev/v1alpha1\nkind: TuningProfile\nmetadata: {name: mine}\nspec: {}\n")
    asked = ("explain", str(document), "last.pdparams", "--plugins", "--framework")
    applied = {}
    for name in ("paddle", "jax"):
        rules = stoker(installed, *asked, name)["rules"]
        (applied[name],) = (one["applies"] for one in rules if one["rule"] == "paddle-checkpoints")
    assert applied == {"paddle": True, "jax": False}


def test_its_wheel_is_found_where_it_is_unpacked_as_images_have_it(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
    source = str(ROOT / "examples" / "framework_plugin")
    subprocess.run([*pip, "--no-build-isolation", "-w", str(tmp_path), source], check=True, timeout=100)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(tmp_path / "site")], check=True)
    assert "stoker-paddle 0.1.0" in [one["from"] for one in stoker(tmp_path / "site", "plugins")]
