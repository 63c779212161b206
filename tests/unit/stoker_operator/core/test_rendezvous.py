"""The rendezvous environment of each framework."""

import json

import pytest

from stoker_api.jobs.trainingjob import Framework
from stoker_operator.core.jobs.jobs import INDEX, environment, merge

HOSTS = ["ddp-0.ddp.vision.svc", "ddp-1.ddp.vision.svc"]


def values(framework: Framework) -> dict[str, str]:
    return {one["name"]: one["value"] for one in environment(framework, HOSTS) if "value" in one}


def test_pytorch_meets_at_the_first_worker() -> None:
    found = values(Framework.PYTORCH)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"], found["WORLD_SIZE"]) == (HOSTS[0], "29500", "2")
    assert found["RANK"] == found["NODE_RANK"] == f"$({INDEX})"


def test_torchrun_gets_the_same_by_its_own_names() -> None:
    found = values(Framework.PYTORCH)
    assert (found["PET_NNODES"], found["PET_NODE_RANK"], found["PET_MASTER_ADDR"]) == ("2", f"$({INDEX})", HOSTS[0])


def test_tf_config_is_json_once_the_index_is_put_in() -> None:
    config = json.loads(values(Framework.TENSORFLOW)["TF_CONFIG"].replace(f"$({INDEX})", "1"))
    assert config == {"cluster": {"worker": [f"{host}:2222" for host in HOSTS]}, "task": {"type": "worker", "index": 1}}


def test_jax_gets_coordinator_count_and_index() -> None:
    assert values(Framework.JAX) == {
        "JAX_COORDINATOR_ADDRESS": f"{HOSTS[0]}:1234",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": f"$({INDEX})",
    }


def test_none_sets_nothing() -> None:
    assert environment(Framework.NONE, HOSTS) == []


@pytest.mark.parametrize("framework", [Framework.PYTORCH, Framework.TENSORFLOW, Framework.JAX])
def test_the_index_comes_before_what_refers_to_it(framework: Framework) -> None:
    # The kubelet expands $(X) only if X is earlier in the list.
    first = environment(framework, HOSTS)[0]
    assert first["name"] == INDEX
    assert first["valueFrom"]["fieldRef"]["fieldPath"].endswith("['batch.kubernetes.io/job-completion-index']")


def test_what_the_user_sets_wins() -> None:
    ours = environment(Framework.PYTORCH, HOSTS)
    merged = merge(ours, [{"name": "MASTER_PORT", "value": "1"}, {"name": "X", "value": "$(RANK)"}])
    assert [one["value"] for one in merged if one["name"] == "MASTER_PORT"] == ["1"]
    assert merged[-1] == {"name": "X", "value": "$(RANK)"}
