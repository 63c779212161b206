"""The configuration files of a node. A wrong word would cost a cluster."""

import json
from pathlib import Path

import pytest
import yaml

from e2e.cluster.nodeconfig import KERNEL_SETTINGS, NodeSpec, boot_script, cni_config, containerd_config, etc_files
from e2e.cluster.nodeconfig import kubelet_config as render_kubelet
from e2e.cluster.slots import Slot

SPEC = NodeSpec("demo", 2, Slot(3))


def test_kubelet_runs_on_either_cgroup_version_below_a_group_of_its_own() -> None:
    config = yaml.safe_load(render_kubelet(SPEC))
    assert config["failCgroupV1"] is False
    assert config["cgroupRoot"] == "/stoker-e2e.demo.node-2"


def test_kubelet_never_collects_images_that_no_registry_could_bring_back() -> None:
    assert yaml.safe_load(render_kubelet(SPEC))["imageGCHighThresholdPercent"] == 100


def test_pods_ask_the_clusters_own_dns() -> None:
    assert yaml.safe_load(render_kubelet(SPEC))["clusterDNS"] == [str(SPEC.slot.host_address)]
    assert str(SPEC.slot.host_address) in etc_files(SPEC)["resolv.conf"]


def test_pods_get_addresses_from_the_nodes_own_subnet() -> None:
    bridge = json.loads(cni_config(SPEC))["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.163.2.0/24"}]]


def test_containerd_asks_for_no_lower_oom_score_than_the_machine_grants() -> None:
    assert "restrict_oom_score_adj = true" in containerd_config().splitlines()


def test_a_service_waits_for_its_credentials_before_it_starts() -> None:
    lines = etc_files(SPEC)["init/kubelet"].splitlines()
    assert lines.index("while [ ! -e /etc/kubernetes/kubelet.kubeconfig ]; do sleep 0.1; done") < len(lines) - 1
    assert lines[-1].startswith("exec ")


def test_every_service_is_started_again_when_it_ends() -> None:
    files = etc_files(SPEC)
    services = {name.removeprefix("init/") for name in files if name.startswith("init/")}
    assert {line.rpartition("/")[2] for line in files["inittab"].splitlines()} == services


@pytest.mark.parametrize("setting", KERNEL_SETTINGS)
def test_kernel_wide_settings_are_hidden_from_the_kubelet(setting: str) -> None:
    script = boot_script(Path("/d/node-2"), Path("/bin"))
    loop = next(line for line in script.splitlines() if line.startswith("for setting in"))
    assert setting in loop


def test_the_nodes_mounts_are_cut_off_before_any_is_made_and_shared_after_the_last() -> None:
    lines = [line for line in boot_script(Path("/d/node-2"), Path("/bin")).splitlines() if "mount" in line]
    made = [index for index, line in enumerate(lines) if line.startswith(("mount -t", "bind "))]
    assert lines.index("mount --make-rprivate /") < min(made)
    assert lines.index("mount --make-rshared /") > max(made)
