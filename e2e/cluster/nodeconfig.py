"""The content of a node's files: kubelet, containerd, CNI, and the script that turns a process into a machine."""

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.cluster.cgroups import group_name
from e2e.cluster.controlplane import CLUSTER_DOMAIN
from e2e.cluster.slots import Slot

PAUSE_IMAGE = "docker.io/stoker-e2e/pause:dev"
BINARIES = "/opt/stoker-e2e/bin"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
# Copied from the machine, so that its programs work inside the node's own /etc.
COPIED_FROM_ETC = ("group", "ld.so.cache", "localtime", "nsswitch.conf", "passwd", "protocols", "services")
BOUND_FROM_ETC = ("alternatives", "ssl")
# The kubelet sets these for the whole kernel, which the node shares. Inside a node they are plain files.
KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


@dataclass(frozen=True)
class NodeSpec:
    """One node: its cluster, its number (from 1) and the addresses of its slot."""

    cluster: str
    index: int
    slot: Slot

    @property
    def name(self) -> str:
        return f"node-{self.index}"

    @property
    def address(self) -> str:
        return str(self.slot.node_address(self.index))


def kubelet_config(spec: NodeSpec) -> str:
    """Return the KubeletConfiguration as YAML."""
    # All nodes share the machine's space: evict only when it is almost exhausted.
    eviction = {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": spec.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group_name(spec.cluster, spec.name)}",
        "clusterDNS": [str(spec.slot.host_address)],
        "clusterDomain": CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "enforceNodeAllocatable": [],
        "evictionHard": eviction,
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,  # never: there is no registry to pull an image from again
        "resolvConf": "/etc/resolv.conf",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }
    return yaml.safe_dump(document, sort_keys=False)


def containerd_config() -> str:
    """Return containerd's TOML, in the version 2 format that Debian 12's containerd reads."""
    cri = '[plugins."io.containerd.grpc.v1.cri"'
    lines = [
        "version = 2",
        f"{cri}]",
        f'sandbox_image = "{PAUSE_IMAGE}"',
        "restrict_oom_score_adj = true",  # the machine may lack CAP_SYS_RESOURCE
        "disable_apparmor = true",  # a profile would be loaded into the shared kernel
        f"{cri}.cni]",
        'bin_dir = "/usr/lib/cni"',
        'conf_dir = "/etc/cni/net.d"',
        f"{cri}.containerd.runtimes.runc]",
        'runtime_type = "io.containerd.runc.v2"',
        f"{cri}.containerd.runtimes.runc.options]",
        "SystemdCgroup = false",
    ]
    return "\n".join(lines) + "\n"


def cni_config(spec: NodeSpec) -> str:
    """Return the CNI list: a bridge with the node's own pod subnet, and host ports."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": str(spec.slot.pod_network(spec.index))}]],
        "routes": [{"dst": spec.slot.default_route}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": ipam}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "stoker-e2e", "plugins": [bridge, ports]}, indent=2)


def etc_files(spec: NodeSpec) -> dict[str, str]:
    """Return the written files of the node's /etc, by path. Those under init/ are programs."""
    search = f"127.0.0.1 localhost\n{spec.address} {spec.name}\n"
    return {
        "hostname": f"{spec.name}\n",
        "hosts": search,
        "resolv.conf": f"nameserver {spec.slot.host_address}\n",
        "containerd/config.toml": containerd_config(),
        "cni/net.d/10-e2e.conflist": cni_config(spec),
        "kubernetes/kubelet.yaml": kubelet_config(spec),
        "inittab": "".join(f"::respawn:/etc/init/{name}\n" for name in _services(spec)),
        **{f"init/{name}": text for name, text in _services(spec).items()},
    }


def _services(spec: NodeSpec) -> dict[str, str]:
    kubelet = [
        f"{BINARIES}/kubelet",
        "--config=/etc/kubernetes/kubelet.yaml",
        "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
        f"--hostname-override={spec.name}",
        f"--node-ip={spec.address}",
    ]
    proxy = [
        f"{BINARIES}/kube-proxy",
        "--kubeconfig=/etc/kubernetes/kube-proxy.kubeconfig",
        f"--hostname-override={spec.name}",
        "--proxy-mode=nftables",
        f"--cluster-cidr={spec.slot.network}",
        # Zero leaves conntrack unchanged: its limits apply to the whole kernel.
        *(f"--conntrack-{what}=0" for what in ("max-per-core", "min", "tcp-timeout-established")),
        "--conntrack-tcp-timeout-close-wait=0",
    ]
    return {
        "containerd": _service("containerd", ["/usr/bin/containerd"]),
        "kubelet": _service("kubelet", kubelet, "/etc/kubernetes/kubelet.kubeconfig", CONTAINERD_SOCKET),
        "kube-proxy": _service("kube-proxy", proxy, "/etc/kubernetes/kube-proxy.kubeconfig"),
    }


def _service(name: str, argv: list[str], *needed: str) -> str:
    """Return the program that starts a service when its required files exist."""
    waits = "".join(f"while [ ! -e {file} ]; do sleep 0.1; done\n" for file in needed)
    return f"#!/bin/sh\nexec >>/var/log/{name}.log 2>&1\n{waits}exec {' '.join(argv)}\n"


def boot_script(folder: Path, binaries: Path) -> str:
    """Return the shell script that a node's first process runs, in new namespaces, before it becomes init.

    It builds a separate root (the machine's /usr read-only, its own /etc, /var, /run and /tmp), moves into it and makes
    it rshared, as on a real machine. So /var/lib/kubelet is private to each node, and mount propagation works.
    """
    root = folder / "root"
    bound = "\n".join(f"[ ! -d /etc/{name} ] || bind /etc/{name} etc/{name}" for name in BOUND_FROM_ETC)
    return f"""\
set -eu
bind() {{ mkdir -p {root}/$2; mount --rbind $1 {root}/$2; }}
mount --make-rprivate /
mkdir -p {root}
mount -t tmpfs -o mode=0755 stoker-e2e-node {root}
for name in bin sbin lib lib32 lib64 libx32; do
  if [ -L /$name ]; then cp -P /$name {root}/$name; elif [ -d /$name ]; then bind /$name $name; fi
done
bind /usr usr
mount -o remount,bind,ro {root}/usr
bind /dev dev
bind /sys sys
bind {folder}/etc etc
bind {folder}/var var
{bound}
bind {binaries} {BINARIES.lstrip("/")}
mkdir -p {root}/proc {root}/run {root}/tmp {root}/root {root}/old
mount -t proc proc {root}/proc
mount -t tmpfs -o mode=0755 run {root}/run
mount -t tmpfs -o mode=1777 tmp {root}/tmp
cd {root}
for setting in {" ".join(KERNEL_SETTINGS)}; do
  mkdir -p run/kernel/${{setting%/*}}
  cat proc/sys/$setting > run/kernel/$setting
  mount --bind run/kernel/$setting proc/sys/$setting
done
ln -s /run var/run 2>/dev/null || true
ulimit -n 1048576 || true
pivot_root . old
umount -l /old
rmdir /old
mount --make-rshared /
exec /usr/bin/busybox init
"""
