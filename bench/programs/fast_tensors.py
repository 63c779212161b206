"""A process that loads files with fastsafetensors, which reads them whole and makes tensors of their bytes."""

from collections.abc import Sequence

import torch
from fastsafetensors import SafeTensorsFileLoader, SingleGroup

from bench.programs.tensors import run


def _load(paths: Sequence[str]) -> int:
    loader = SafeTensorsFileLoader(SingleGroup(), torch.device("cpu"), nogds=True)
    loader.add_filenames({0: list(paths)})
    buffers = loader.copy_files_to_device()
    try:
        tensors = (buffers.get_tensor(name) for name in loader.get_keys())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    finally:
        buffers.close()
        loader.close()


if __name__ == "__main__":
    run(_load)
