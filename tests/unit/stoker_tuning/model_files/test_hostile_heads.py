"""Heads of files are untrusted: any content is classified in bounded time, and none of it is executed."""

import pickle
import struct
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_tuning.model_files.recognition import recognise
from tests.unit.stoker_tuning.model_files import samples

SAMPLES = [
    samples.safetensors("a.weight"),
    samples.gguf(),
    samples.torch_zip(samples.CHECKPOINT),
    pickle.dumps(samples.CHECKPOINT),
    samples.keras_zip(),
    samples.hdf5("model_weights"),
    samples.onnx(),
    samples.saved_model(),
    samples.numpy_array(),
    samples.ocdbt(0x0CDB3A2A),
    samples.table(),
]
STARTS = st.sampled_from([sample[:size] for sample in SAMPLES for size in (4, 8, 16, 64, len(sample))])
CHANGES = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=8)


def changed(sample: bytes, changes: list[tuple[int, int]]) -> bytes:
    made = bytearray(sample)
    for at, value in changes:
        if made:
            made[at % len(made)] = value
    return bytes(made)


@given(st.binary(max_size=300), st.binary(max_size=100), st.text(max_size=60))
def test_any_bytes_are_judged(head: bytes, tail: bytes, name: str) -> None:
    assert 0 <= recognise(name, head, tail).confidence <= 1


@given(STARTS, st.binary(max_size=300), st.binary(max_size=100))
@settings(max_examples=300)
def test_any_bytes_behind_a_real_start_are_judged(start: bytes, rest: bytes, tail: bytes) -> None:
    assert 0 <= recognise("x", start + rest, tail).confidence <= 1


@given(st.sampled_from(SAMPLES), CHANGES, st.integers(0, 5000))
@settings(max_examples=500)
def test_files_that_were_changed_or_cut_are_judged(sample: bytes, changes: list[tuple[int, int]], end: int) -> None:
    made = changed(sample, changes)[:end]
    assert 0 <= recognise("x", made, made).confidence <= 1


class _Harm:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    recognise("model.pkl", pickle.dumps({"epoch": 1, "state_dict": _Harm(tmp_path / "harm")}))
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "head",
    [
        b"\x80\x04" + b"\x8d" + struct.pack("<Q", 2**62) + b"x",  # a string of 4 EiB
        b"\x80\x04" + b"(" * 65534,
        b"\x80\x02" + b"\x8b" + struct.pack("<i", 65000) + b"\x7f" * 65000,  # a number of 65,000 bytes
        struct.pack("<Q", 10**8) + b'{"' + b'a":{"' * 13000,
        b"[" * 65536,
        b"{" * 65536,
        b'"' * 65536,
        b" " * 65535 + b"{",
        b"\x08\x08" + b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" * 6000,  # messages of 8 EiB
        b"PK\x03\x04" + bytes(26) * 2500,
        b"PK\x01\x02" * 16384,
        b"".join(struct.pack("<4s22xHH", b"PK\x03\x04", 0, 0) for _ in range(2000)),
    ],
    ids=range(12),
)
def test_a_head_that_was_made_to_cost_time_costs_little(head: bytes) -> None:
    started = process_time()
    recognise("x", head, head)
    assert process_time() - started < 5  # some milliseconds; the bound is for a busy machine


def test_what_is_beyond_the_bound_is_not_looked_at() -> None:
    started = process_time()
    recognise("x", bytes(1 << 28))
    assert process_time() - started < 5
