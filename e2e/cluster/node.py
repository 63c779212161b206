"""One node: a process in separate namespaces that runs containerd, kubelet and kube-proxy."""

import shutil
from collections.abc import Callable
from pathlib import Path

from e2e.cluster import cgroups, network
from e2e.cluster.certs import Authority, node_identity
from e2e.cluster.controlplane import server_url
from e2e.cluster.errors import CommandFailedError, NotReadyError
from e2e.cluster.nodeconfig import COPIED_FROM_ETC, NodeSpec, boot_script, etc_files
from e2e.cluster.paths import ClusterPaths
from e2e.cluster.processes import Owned, kill, owned_by, run, start_daemon, tail, wait_for

BOOT_SECONDS = 30.0


class Node:
    """Starts, enters and stops one node of a cluster."""

    def __init__(self, paths: ClusterPaths, spec: NodeSpec, binary: Callable[[str], Path]) -> None:
        self.spec = spec
        self._paths = paths
        self._folder = paths.node(spec.name)
        self._binary = binary

    def boot(self, others: list[int]) -> None:
        """Start the node's runtime. `others` are the numbers of the nodes that it must reach. Raises NotReadyError."""
        self._write_files()
        cgroups.make(cgroups.group_name(self.spec.cluster, self.spec.name))
        self._start_init()
        self._plug_in(others)

    def join(self, pki: Authority) -> None:
        """Give the node its credentials, which starts its kubelet and kube-proxy."""
        pki.issue(node_identity(self.spec.name))
        target = self._folder / "etc/kubernetes"
        shutil.copy(pki.certificate, target / "ca.crt")
        for service, identity in (("kube-proxy", "kube-proxy"), ("kubelet", self.spec.name)):
            draft = target / f"{service}.kubeconfig.new"
            draft.write_text(pki.kubeconfig(identity, server_url(self.spec.slot)))
            draft.rename(target / f"{service}.kubeconfig")  # at once: the service waits for this file

    def processes(self) -> list[Owned]:
        return [owned for owned in owned_by(self.spec.cluster) if owned.component == self.spec.name]

    def is_running(self) -> bool:
        return any(owned.is_node_init for owned in self.processes())

    def enter(self, *argv: str, stdin: bytes | None = None) -> str:
        """Run a program inside the node and return its output. Raises CommandFailedError, NotReadyError."""
        return run(*self.entry(), *argv, stdin=stdin)

    def entry(self) -> list[str]:
        """Return the command prefix that runs a command inside the node. Raises NotReadyError."""
        return ["nsenter", "-t", str(self._init()), "-m", "-n", "-p", "-u", "-i", "--"]

    def import_image(self, archive: Path) -> None:
        """Load a docker-archive into the node's containerd."""
        self.wait_for_runtime()
        run(*self.entry(), *CTR, "images", "import", "-", stdin=archive)

    def wait_for_runtime(self) -> None:
        """Wait until containerd answers. Raises NotReadyError with its log."""
        wait_for(f"containerd of {self.spec.name}", self._runtime_answers, BOOT_SECONDS, self.log("containerd"))

    def stop(self) -> None:
        """Kill all processes in the node. Remove its mounts, network, groups and folders."""
        kill([owned.pid for owned in self.processes()])
        run("ip", "link", "del", self.spec.slot.veth(self.spec.index), check=False)
        cgroups.remove(cgroups.group_name(self.spec.cluster, self.spec.name))
        shutil.rmtree(self._folder)

    def log(self, component: str) -> Path:
        return self._folder / "var/log" / f"{component}.log"

    def logs_tail(self) -> str:
        """Return the ends of the node's logs, for an error message."""
        names = ("boot", "containerd", "kubelet", "kube-proxy")
        return "\n".join(f"--- {self.log(name)}\n{tail(self.log(name))}" for name in names)

    def _runtime_answers(self) -> bool:
        try:
            self.enter(*CTR, "version")
        except (CommandFailedError, NotReadyError):
            return False
        return True

    def _write_files(self) -> None:
        for name in ("etc/kubernetes", "var/log", "var/lib/kubelet", "var/lib/containerd", "var/lib/stoker", "var/tmp"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        for name, text in etc_files(self.spec).items():
            file = self._folder / "etc" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if name.startswith("init/") else 0o644)
        for name in COPIED_FROM_ETC:
            if (source := Path("/etc") / name).exists():
                shutil.copy(source, self._folder / "etc" / name)
        (self._folder / "boot").write_text(boot_script(self._folder, self._binary("kubelet").parent))

    def _plug_in(self, others: list[int]) -> None:
        network.apply(network.cable_commands(self.spec.slot, self.spec.index, self._init()))
        network.apply(network.inside_commands(self.spec.slot, self.spec.index, others), *self.entry())
        self.enter("sh", "-c", network.forward_command(self.spec.slot))

    def _start_init(self) -> None:
        isolate = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"]
        script = f"hostname {self.spec.name}; exec sh {self._folder}/boot"
        process = start_daemon(self.spec.cluster, self.spec.name, [*isolate, "sh", "-c", script], self.log("boot"))
        wait_for(
            f"{self.spec.name} to boot", self._booted, BOOT_SECONDS, self.log("boot"), lambda: process.poll() is None
        )

    def _init(self) -> int:
        """Return the PID of the node's first process. Raises NotReadyError if the node does not run."""
        for owned in self.processes():
            if owned.is_node_init:
                return owned.pid
        raise NotReadyError(f"{self.spec.name} of cluster {self.spec.cluster} is not running", self.log("boot"))

    def _booted(self) -> bool:
        init = [owned.pid for owned in self.processes() if owned.is_node_init]
        return bool(init) and Path(f"/proc/{init[0]}/exe").readlink().name == "busybox"


CTR = ("ctr", "--namespace", "k8s.io")
