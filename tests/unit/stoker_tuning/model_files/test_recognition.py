"""Model files are recognized by their bytes, by their names if the bytes are ambiguous, and never by size."""

import pickle

import pytest

from stoker_tuning.model_files.formats import ModelFileFormat
from stoker_tuning.model_files.names import epoch_in_name, kind_by_name
from stoker_tuning.model_files.recognition import recognise
from stoker_tuning.vocabulary import ModelFileKind
from tests.support.cases import cases
from tests.unit.stoker_tuning.model_files import samples

F, K = ModelFileFormat, ModelFileKind
FILES = {
    "safetensors": ("x", samples.safetensors("a.weight", "a.bias"), F.SAFETENSORS, K.WEIGHTS),
    "safetensors with odd tensors": ("x", samples.safetensors("table"), F.SAFETENSORS, K.WEIGHTS),
    "safetensors of an optimizer": ("x", samples.safetensors("exp_avg.0", "exp_avg_sq.0"), F.SAFETENSORS, K.OPTIMIZER),
    "gguf": ("x", samples.gguf(), F.GGUF, K.WEIGHTS),
    "torch weights": ("x", samples.torch_zip(samples.WEIGHTS), F.PYTORCH, K.WEIGHTS),
    "torch checkpoint": ("x", samples.torch_zip(samples.CHECKPOINT), F.PYTORCH, K.CHECKPOINT),
    "torch optimizer": ("x", samples.torch_zip(samples.OPTIMIZER), F.PYTORCH, K.OPTIMIZER),
    "torchscript": ("x", samples.torch_zip({}, "code/a.py", "constants.pkl"), F.TORCHSCRIPT, K.WEIGHTS),
    "pickled weights": ("x", pickle.dumps(samples.WEIGHTS), F.PICKLE, K.WEIGHTS),
    "pickled checkpoint": ("x", pickle.dumps(samples.CHECKPOINT, 4), F.PICKLE, K.CHECKPOINT),
    "pickled data": ("x", pickle.dumps({"label": 3}), F.PICKLE, K.UNKNOWN),
    "keras": ("x", samples.keras_zip(), F.KERAS, K.WEIGHTS),
    "hdf5 of keras": ("x", samples.hdf5("model_weights", "layer_names"), F.HDF5, K.WEIGHTS),
    "hdf5 of keras with its optimizer": ("x", samples.hdf5("model_weights", "optimizer_weights"), F.HDF5, K.CHECKPOINT),
    "hdf5 data": ("x.h5", samples.hdf5("images", "labels"), F.HDF5, K.UNKNOWN),
    "onnx": ("x", samples.onnx(), F.ONNX, K.WEIGHTS),
    "saved model": ("x", samples.saved_model(), F.SAVED_MODEL, K.ARCHITECTURE),
    "numpy array": ("x.npy", samples.numpy_array(), F.NUMPY, K.UNKNOWN),
    "numpy archive": ("x.npz", samples.numpy_archive(), F.NUMPY_ZIP, K.UNKNOWN),
    "numpy archive of weights": ("model_weights.npz", samples.numpy_archive(), F.NUMPY_ZIP, K.WEIGHTS),
    "ocdbt manifest": ("x", samples.ocdbt(0x0CDB3A2A), F.OCDBT, K.METADATA),
    "ocdbt node": ("x", samples.ocdbt(0x0CDB20DE), F.OCDBT, K.CHECKPOINT),
    "tensorflow index": ("x", samples.table(), F.TENSORFLOW_INDEX, K.METADATA),
    "config": ("x", b'{"architectures": ["BertModel"], "hidden_size": 768}', F.JSON, K.ARCHITECTURE),
    "tokenizer": ("x", b'{"version": "1.0", "added_tokens": []}', F.JSON, K.METADATA),
    "jpeg": ("train/1.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0", F.UNKNOWN, K.UNKNOWN),
    "text": ("labels.txt", b"cat\ndog\n", F.UNKNOWN, K.UNKNOWN),
    "nothing": ("x", b"", F.UNKNOWN, K.UNKNOWN),
}


@pytest.mark.parametrize("name", FILES)
def test_bytes_tell_format_and_kind(name: str) -> None:
    path, content, form, kind = FILES[name]
    found = recognise(path, content, content)
    assert (found.format, found.kind) == (form, kind)


@pytest.mark.parametrize("name", [name for name in FILES if name != "tensorflow index"])
def test_the_head_alone_is_enough(name: str) -> None:
    path, content, form, kind = FILES[name]
    found = recognise(path, content[:65536])
    assert (found.format, found.kind) == (form, kind)


@cases(
    "path, kind",
    ("model.safetensors", K.WEIGHTS),
    ("model-00001-of-00004.safetensors", K.WEIGHTS),
    ("pytorch_model.bin", K.WEIGHTS),
    ("optimizer.pt", K.OPTIMIZER),
    ("global_step5/mp_rank_00_optim_states.pt", K.OPTIMIZER),
    ("runs/checkpoint-epoch3.pt", K.CHECKPOINT),
    ("last.ckpt", K.CHECKPOINT),
    ("config.json", K.ARCHITECTURE),
    ("tokenizer.json", K.METADATA),
    ("model.safetensors.index.json", K.METADATA),
    ("variables/variables.data-00000-of-00001", K.WEIGHTS),
    ("variables/variables.index", K.METADATA),
    ("ckpt-12.data-00000-of-00001", K.CHECKPOINT),
    ("step_100/_CHECKPOINT_METADATA", K.METADATA),
    ("manifest.ocdbt", K.METADATA),
    ("train/0001.pt", K.UNKNOWN),
    ("train.bin", K.UNKNOWN),
    ("images/model_car.jpg", K.UNKNOWN),
    ("data.h5", K.UNKNOWN),
    ("shard-000001.tar", K.UNKNOWN),
)
def test_names_tell_what_no_data_is_called(path: str, kind: ModelFileKind) -> None:
    assert kind_by_name(path) is kind


@cases(
    "path, epoch",
    ("checkpoint-epoch3.pt", 3),
    ("epoch=12-step=500.ckpt", 12),
    ("checkpoint-500/optimizer.pt", 500),
    ("step_100/d/abc", 100),
    ("model.pt", None),
    ("epoch99999999999999999999.pt", None),
)
def test_names_tell_the_epoch(path: str, epoch: int | None) -> None:
    assert epoch_in_name(path) == epoch


def test_a_checkpoints_own_epoch_goes_before_its_names() -> None:
    assert recognise("checkpoint-500.pt", samples.torch_zip(samples.CHECKPOINT)).epoch == 7


def test_weights_under_a_checkpoints_name_are_a_checkpoint() -> None:
    found = recognise("epoch=3.ckpt", samples.torch_zip(samples.WEIGHTS))
    assert (found.kind, found.epoch) == (K.CHECKPOINT, 3)


def test_bytes_go_before_a_name_that_says_otherwise() -> None:
    assert recognise("model.safetensors", samples.torch_zip(samples.OPTIMIZER)).kind is K.OPTIMIZER


def test_name_and_bytes_together_are_surer() -> None:
    content = samples.torch_zip(samples.WEIGHTS)
    assert recognise("pytorch_model.bin", content).confidence > recognise("x", content).confidence


def test_size_is_no_sign() -> None:
    assert recognise("big.dat", bytes(65536)).kind is K.UNKNOWN


def test_an_onnx_file_that_is_cut_off_in_its_graph_is_one() -> None:
    assert recognise("x", samples.onnx(5000)[:65536]).format is F.ONNX
