"""The environment by which the workers of each framework find each other."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stoker_api.trainingjob import Framework

Variables = list[dict[str, Any]]

PYTORCH_PORT = 29500  # torch.distributed's own default
TENSORFLOW_PORT = 2222  # TensorFlow's customary gRPC port
JAX_PORT = 1234  # as in jax.distributed.initialize's documentation

INDEX = "JOB_COMPLETION_INDEX"  # the Job controller adds it where it is missing, but after what refers to it
_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def environment(framework: Framework, hosts: Sequence[str]) -> Variables:
    """Return variables for every container. ``hosts`` are the workers' DNS names, the first one's is where they meet.

    pytorch: what torch.distributed's env:// reads with one process a worker, and PET_* for torchrun.
    tensorflow: TF_CONFIG of tf.distribute's TFConfigClusterResolver.
    jax: jax.distributed.initialize() takes the address from JAX_COORDINATOR_ADDRESS; the count and the index are passed
    as arguments, from JAX_NUM_PROCESSES and JAX_PROCESS_ID.
    """
    match framework:
        case Framework.PYTORCH:
            return [_index(), *_plain(_pytorch(hosts))]
        case Framework.TENSORFLOW:
            return [_index(), *_plain({"TF_CONFIG": _tf_config(hosts)})]
        case Framework.JAX:
            return [_index(), *_plain(_jax(hosts))]
        case Framework.NONE:
            return []


def merge(ours: Variables, theirs: Sequence[Mapping[str, Any]]) -> Variables:
    """Put ``ours`` before ``theirs``, so that theirs may refer to ours; a name that they set is left to them."""
    taken = {variable.get("name") for variable in theirs}
    return [one for one in ours if one["name"] not in taken] + [dict(one) for one in theirs]


def _index() -> dict[str, Any]:
    return {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": _INDEX_FIELD}}}


def _plain(values: Mapping[str, str]) -> Variables:
    return [{"name": name, "value": value} for name, value in values.items()]


def _pytorch(hosts: Sequence[str]) -> dict[str, str]:
    rank, size, port = f"$({INDEX})", str(len(hosts)), str(PYTORCH_PORT)
    plain = {"MASTER_ADDR": hosts[0], "MASTER_PORT": port, "WORLD_SIZE": size, "RANK": rank, "NODE_RANK": rank}
    return plain | {"PET_MASTER_ADDR": hosts[0], "PET_MASTER_PORT": port, "PET_NNODES": size, "PET_NODE_RANK": rank}


def _tf_config(hosts: Sequence[str]) -> str:
    workers = [f"{host}:{TENSORFLOW_PORT}" for host in hosts]
    config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": INDEX}}
    # The index is a number that only the pod knows: the kubelet puts it in.
    return json.dumps(config).replace(f'"{INDEX}"', f"$({INDEX})")


def _jax(hosts: Sequence[str]) -> dict[str, str]:
    return {
        "JAX_COORDINATOR_ADDRESS": f"{hosts[0]}:{JAX_PORT}",
        "JAX_NUM_PROCESSES": str(len(hosts)),
        "JAX_PROCESS_ID": f"$({INDEX})",
    }
