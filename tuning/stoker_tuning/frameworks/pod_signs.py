"""Signs of training in a pod's manifest: launcher, variables, image, GPUs, batch size, job. Pure.

A manifest may come from anyone: invalid parts give no hint.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from stoker_tuning.frameworks.container_context import container_context
from stoker_tuning.frameworks.pod_hints import MOST_BATCH, MOST_GPUS, MOST_JOB, FrameworkSource, PodHints
from stoker_tuning.frameworks.signs import batch_size, words

_PYTORCH, _TENSORFLOW, _JAX, _HUGGINGFACE = "pytorch", "tensorflow", "jax", "huggingface"
_LAUNCHERS = {
    "accelerate": _HUGGINGFACE,
    "text-generation-launcher": _HUGGINGFACE,
    "torchrun": _PYTORCH,
    "torch.distributed.run": _PYTORCH,
    "torch.distributed.launch": _PYTORCH,
    "deepspeed": _PYTORCH,
    "torchserve": _PYTORCH,
    "vllm": _PYTORCH,
    "tensorflow_model_server": _TENSORFLOW,
}
# By the prefix of a variable's name, the first match counts: variables that only one framework's launchers read.
_VARIABLES = (
    ("ACCELERATE_", _HUGGINGFACE),
    ("PET_", _PYTORCH),
    ("TORCHELASTIC_", _PYTORCH),
    ("TF_CONFIG", _TENSORFLOW),
    ("JAX_", _JAX),
    ("XLA_PYTHON_CLIENT_", _JAX),
    ("PYTORCH_", _PYTORCH),
    ("TRANSFORMERS_", _HUGGINGFACE),
)
# torch.distributed reads these together; many programs use one of them.
_RENDEZVOUS = {"WORLD_SIZE", "MASTER_ADDR"}
# By a word of the image's name, the first match counts: an image for Hugging Face also names its base framework.
_IMAGE_WORDS = (
    ("huggingface", _HUGGINGFACE),
    ("transformers", _HUGGINGFACE),
    ("pytorch", _PYTORCH),
    ("torch", _PYTORCH),
    ("vllm", _PYTORCH),
    ("tensorflow", _TENSORFLOW),
    ("jax", _JAX),
)
_BATCH_FLAGS = (
    "--per_device_train_batch_size",
    "--per-device-train-batch-size",
    "--train_batch_size",
    "--train-batch-size",
    "--micro_batch_size",
    "--micro-batch-size",
    "--batch_size",
    "--batch-size",
    "batch_size",  # in Hydra's overrides
    "-b",
)
_BATCH_VARIABLES = ("PER_DEVICE_TRAIN_BATCH_SIZE", "TRAIN_BATCH_SIZE", "BATCH_SIZE")
# Labels that controllers put on a job's pods; the label with the name of the whole training comes first.
JOB_LABELS = (
    "stoker.dev/training-job",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_JOB_OWNERS = ("Job", "JobSet", "RayCluster")  # suffixes of kinds: PyTorchJob and MPIJob are jobs, too
_JOB_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_MOST_ITEMS = 64  # containers, owners, limits of a container
_MOST_WORDS = 4096
_PUNCTUATION = "\"'`()[]{};&|,"


def pod_hints(pod: Any) -> PodHints:
    """Return the hints in a pod's manifest. Never raises, for any input."""
    context = container_context(pod)
    found = _framework(context)
    batch = batch_size(context, _BATCH_FLAGS, _BATCH_VARIABLES).get("batch_size", 0.0)
    return PodHints(
        framework=found[0] if found else "",
        framework_source=found[1] if found else None,
        batch_size=min(int(batch), MOST_BATCH),
        gpus=min(sum(map(_gpus, _mappings(_field(_field(pod, "spec"), "containers")))), MOST_GPUS),
        job=_job(_field(pod, "metadata")),
    )


def _framework(context: Mapping[str, Any]) -> tuple[str, FrameworkSource] | None:
    launcher = next((_LAUNCHERS[word] for word in _programs(context["arguments"]) if word in _LAUNCHERS), "")
    if launcher:
        return launcher, FrameworkSource.COMMAND
    names = sorted(context["environment"])
    variable = next((framework for sign, framework in _VARIABLES if any(name.startswith(sign) for name in names)), "")
    if variable:
        return variable, FrameworkSource.ENVIRONMENT
    image = next((framework for sign, framework in _IMAGE_WORDS if sign in _image_words(context["image"])), "")
    if image:
        return image, FrameworkSource.IMAGE
    return (_PYTORCH, FrameworkSource.ENVIRONMENT) if names and _RENDEZVOUS.issubset(names) else None


def _programs(arguments: list[str]) -> Iterator[str]:
    """Yield the words of a command line without folders and punctuation."""
    return (word.strip(_PUNCTUATION).rpartition("/")[2] for word in islice(words(arguments), _MOST_WORDS))


def _image_words(image: str) -> set[str]:
    """Return the words of an image's name and tag, without the registry's host and the digest."""
    name = image.partition("@")[0].lower()
    first, slash, rest = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first)
    return set(re.split(r"[^a-z0-9]+", rest if is_host else name))


def _gpus(container: Mapping[Any, Any]) -> int:
    """Return a container's number of GPUs by its limits; whole GPUs and slices count alike."""
    limits = _field(_field(container, "resources"), "limits")
    if not isinstance(limits, Mapping):
        return 0
    items = islice(limits.items(), _MOST_ITEMS)
    return sum(_count(value) for name, value in items if isinstance(name, str) and _is_gpu(name))


def _is_gpu(resource: str) -> bool:
    return resource.endswith("/gpu") or resource.startswith(("nvidia.com/mig-", "gpu.intel.com/"))


def _count(value: Any) -> int:
    if isinstance(value, int):
        return min(max(value, 0), MOST_GPUS)
    whole = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 9
    return min(int(value), MOST_GPUS) if whole else 0


def _job(metadata: Any) -> str:
    """Return the name of the pod's job: from a label, else from its controller."""
    labels = _field(metadata, "labels")
    named = (_field(labels, label) for label in JOB_LABELS)
    owned = (
        _field(owner, "name")
        for owner in _mappings(_field(metadata, "ownerReferences"))
        if _field(owner, "controller") is True and str(_field(owner, "kind")).endswith(_JOB_OWNERS)
    )
    return next((name for name in (*named, *owned) if is_job_name(name)), "")


def is_job_name(name: Any) -> bool:
    """Return True if the value is a valid name of a job."""
    return isinstance(name, str) and len(name) <= MOST_JOB and _JOB_NAME.fullmatch(name) is not None


def _field(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, Mapping) else None


def _mappings(found: Any) -> list[Mapping[Any, Any]]:
    items = found[:_MOST_ITEMS] if isinstance(found, list) else []
    return [one for one in items if isinstance(one, Mapping)]
