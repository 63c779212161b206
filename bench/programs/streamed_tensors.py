"""A process that loads safetensors files with Run:ai's model streamer, which reads them in several threads."""

from collections.abc import Sequence

from runai_model_streamer import SafetensorsStreamer

from bench.programs.tensors import run


def _load(paths: Sequence[str]) -> int:
    with SafetensorsStreamer() as streamer:
        streamer.stream_files(list(paths))
        return sum(tensor.numel() * tensor.element_size() for _, tensor in streamer.get_tensors())


if __name__ == "__main__":
    run(_load)
