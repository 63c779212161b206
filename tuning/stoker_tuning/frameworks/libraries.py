"""Which framework a process uses, by the shared libraries that it has loaded. Pure."""

from collections.abc import Collection

# Signs of each framework in paths. The first that is found counts: programs of PyTorch load TensorFlow for its
# TensorBoard, and those of JAX for its data pipelines; who trains with TensorFlow loads neither of them.
_SIGNS = (
    ("pytorch", ("/libtorch_cpu.so", "/libtorch.so", "/libtorch_cuda.so", "/libtorch_python.so")),
    ("jax", ("/jaxlib/",)),
    ("tensorflow", ("/libtensorflow_framework.so", "/libtensorflow_cc.so", "/libtensorflow.so")),
)


def framework_of_libraries(paths: Collection[str]) -> str:
    """Return the framework as ``workload_context`` names it; empty where no library tells one."""
    for framework, signs in _SIGNS:
        if any(sign in path for path in paths for sign in signs):
            return framework
    return ""
