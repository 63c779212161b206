"""An inference server: loads a safetensors file into memory as its format specifies, and answers requests.

inference.py DATA CHECKPOINTS TRUTH. TRUTH gets a JSON line at each change of phase. The reader is a dozen lines here,
so that the program needs only NumPy. Real servers map the file or read it as this one does.
"""

import json
import sys
import time
from pathlib import Path

TRUTH = Path(sys.argv[3])
REQUESTS = 100
REQUEST = 0.15  # seconds


def say(phase: "str | None") -> None:
    """Log the new phase."""
    with TRUTH.open("a") as out:
        out.write(json.dumps({"t": time.monotonic(), "truth": {"phase": phase, "epoch": None}}) + "\n")


say("Initialization")

import numpy  # noqa: E402 - importing takes time, which is part of the phase


def load(path: Path) -> "dict[str, numpy.ndarray]":
    """Read all tensors of a safetensors file."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        tensors = {}
        for name, facts in header.items():
            begin, end = facts["data_offsets"]
            file.seek(8 + size + begin)
            tensors[name] = numpy.frombuffer(file.read(end - begin), dtype=numpy.float32).reshape(facts["shape"])
    return tensors


def main() -> None:
    """Load, then answer."""
    root = Path(sys.argv[1])
    json.loads((root / "config.json").read_text())
    layers = list(load(root / "model.safetensors").values())
    say("Inference")
    for number in range(REQUESTS):
        started = time.monotonic()
        state = numpy.random.default_rng(number).standard_normal(layers[0].shape[:1]).astype(numpy.float32)
        for weights in layers:
            state = numpy.maximum(state @ weights, 0)
        time.sleep(max(0.0, started + REQUEST - time.monotonic()))
    say(None)


if __name__ == "__main__":
    main()
