"""The bodies of corpora."""

from pathlib import Path

from safetensors import safe_open

from bench.objects import Bodies, tensor_bytes
from bench.scale import Corpus
from tests.support.cases import cases

MODEL = Corpus(2, 40_000, 1, tensors=3)


def test_a_model_is_a_safetensors_file_of_equal_tensors(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(Bodies(MODEL).of(1))
    with safe_open(tmp_path / "model.safetensors", framework="numpy") as file:
        assert [file.get_tensor(name).nbytes for name in file.offset_keys()] == [tensor_bytes(MODEL)] * 3


def test_the_files_of_a_model_share_no_tensor(tmp_path: Path) -> None:
    names: list[str] = []
    for number in range(MODEL.files):
        (tmp_path / "model.safetensors").write_bytes(Bodies(MODEL).of(number))
        with safe_open(tmp_path / "model.safetensors", framework="numpy") as file:
            names += file.keys()
    assert len(set(names)) == MODEL.files * MODEL.tensors


@cases("corpus", objects=Corpus(2, 40_000, 1), tensors=MODEL, tiny=Corpus(2, 16, 1))
def test_a_body_has_the_size_of_its_corpus(corpus: Corpus) -> None:
    assert len(Bodies(corpus).of(1)) == corpus.size
