"""The door to this package: what a file is to a model, from its name, its first bytes and its last."""

from collections.abc import Iterator
from dataclasses import replace

from stoker_tuning.model_files.archives import finding_of_zip
from stoker_tuning.model_files.formats import MOST_HEAD, MOST_TAIL, NOTHING, ModelFileFinding
from stoker_tuning.model_files.names import epoch_in_name, kind_by_name
from stoker_tuning.model_files.pickles import finding_of_pickle
from stoker_tuning.model_files.protobufs import finding_of_onnx, finding_of_saved_model
from stoker_tuning.model_files.tensors import (
    finding_of_gguf,
    finding_of_hdf5,
    finding_of_json,
    finding_of_numpy,
    finding_of_ocdbt,
    finding_of_safetensors,
    finding_of_table,
)
from stoker_tuning.vocabulary import ModelFileKind

_BY_NAME_ALONE = 0.5
_NAME_CONFIRMS = 0.97


def recognise(name: str, head: bytes, tail: bytes = b"") -> ModelFileFinding:
    """Tell what a file is to a model. ``head``, ``tail``: its first and last bytes; 64 KiB of each are looked at.

    Bytes decide, and the name where they leave it open. Sizes say nothing. Never raises, whatever the bytes are.
    """
    found = next(_findings(head[:MOST_HEAD], tail[-MOST_TAIL:]), NOTHING)
    named = kind_by_name(name)
    epoch = found.epoch if found.epoch is not None else epoch_in_name(name)
    if found.kind is ModelFileKind.UNKNOWN:
        sure = _BY_NAME_ALONE if named is not ModelFileKind.UNKNOWN else found.confidence
        return replace(found, kind=named, confidence=sure, epoch=_epoch(named, epoch))
    kind = _together(found.kind, named)
    sure = _NAME_CONFIRMS if kind is named else found.confidence
    return replace(found, kind=kind, confidence=sure, epoch=_epoch(kind, epoch))


def _findings(head: bytes, tail: bytes) -> Iterator[ModelFileFinding]:
    """Yield what each format finds, those with a magic number first."""
    for finding in (
        finding_of_gguf(head),
        finding_of_numpy(head),
        finding_of_hdf5(head),
        finding_of_zip(head, tail),
        finding_of_ocdbt(head),
        finding_of_pickle(head),
        finding_of_safetensors(head),
        finding_of_json(head),
        finding_of_table(head, tail),
        finding_of_saved_model(head),
        finding_of_onnx(head),
    ):
        if finding is not None:
            yield finding


def _together(found: ModelFileKind, named: ModelFileKind) -> ModelFileKind:
    """Weights under a checkpoint's name are a checkpoint's; anything else is what its bytes say."""
    return named if (found, named) == (ModelFileKind.WEIGHTS, ModelFileKind.CHECKPOINT) else found


def _epoch(kind: ModelFileKind, epoch: int | None) -> int | None:
    return epoch if kind in (ModelFileKind.CHECKPOINT, ModelFileKind.OPTIMIZER) else None
