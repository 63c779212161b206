"""The framework for each set of loaded libraries."""

from stoker_tuning.frameworks.signs import framework_of_libraries
from tests.support.cases import cases

TORCH = "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
TENSORFLOW = "/usr/lib/python3/dist-packages/tensorflow/libtensorflow_framework.so.2"
JAX = "/venv/lib/python3.11/site-packages/jaxlib/_jax.so"


@cases(
    "paths, framework",
    ([TORCH], "pytorch"),
    ([TENSORFLOW], "tensorflow"),
    ([JAX], "jax"),
    ([TENSORFLOW, TORCH], "pytorch"),
    ([TENSORFLOW, JAX], "jax"),
    (["/usr/lib/libc.so.6", "/usr/lib/libtorchlight.so"], ""),
    ([], ""),
)
def test_the_framework_is_told_by_its_libraries(paths: list[str], framework: str) -> None:
    assert framework_of_libraries(paths) == framework
