"""Model files that PyTorch itself wrote are recognized by their bytes."""

import subprocess
from pathlib import Path

import pytest

from stoker_tuning.model_files.formats import MOST_HEAD, MOST_TAIL, ModelFileFinding, ModelFileFormat
from stoker_tuning.model_files.recognition import recognise
from stoker_tuning.vocabulary import ModelFileKind

_PROGRAM = Path(__file__).parent / "programs" / "checkpoints.py"
_DEBIANS_PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([_DEBIANS_PYTHON, str(_PROGRAM), str(folder)], check=True, timeout=100)
    return folder


def found(path: Path) -> ModelFileFinding:
    content = path.read_bytes()
    return recognise("file", content[:MOST_HEAD], content[-MOST_TAIL:])


@pytest.mark.parametrize(
    ("name", "form", "kind", "epoch"),
    [
        ("weights", ModelFileFormat.PYTORCH, ModelFileKind.WEIGHTS, None),
        ("optimizer_state", ModelFileFormat.PYTORCH, ModelFileKind.OPTIMIZER, None),
        ("both", ModelFileFormat.PYTORCH, ModelFileKind.CHECKPOINT, 3),
        ("legacy", ModelFileFormat.PICKLE, ModelFileKind.CHECKPOINT, 3),
        ("legacy_weights", ModelFileFormat.PICKLE, ModelFileKind.WEIGHTS, None),
        ("script", ModelFileFormat.TORCHSCRIPT, ModelFileKind.WEIGHTS, None),
    ],
)
def test_what_pytorch_writes_is_recognised(
    written: Path, name: str, form: ModelFileFormat, kind: ModelFileKind, epoch: int | None
) -> None:
    finding = found(written / name)
    assert (finding.format, finding.kind, finding.epoch) == (form, kind, epoch)
