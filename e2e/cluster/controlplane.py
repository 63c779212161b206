"""etcd, API server, controller manager, scheduler and DNS: their command lines and their start order."""

import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from e2e.cluster.certs import Authority, control_plane_identities
from e2e.cluster.errors import CommandFailedError
from e2e.cluster.paths import ClusterPaths
from e2e.cluster.processes import answers, kill, owned_by, run, start_daemon, wait_for
from e2e.cluster.slots import Slot

API_PORT = 6443
DNS_READY_PORT = 8181
CLUSTER_DOMAIN = "cluster.local"
START_SECONDS = 60.0
API_SERVER = "kube-apiserver"

# Two blocks, because inside one block `template` comes before `kubernetes`. Names outside the cluster do not resolve,
# as there is no route out of it.
COREFILE = """\
{domain}:53 in-addr.arpa:53 ip6.arpa:53 {{
    bind {address}
    errors
    ready {host}:{port}
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
}}
.:53 {{
    bind {address}
    errors
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""

DNS_RBAC = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "stoker-e2e:coredns"}
rules:
- {apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "stoker-e2e:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "stoker-e2e:coredns"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "stoker-e2e:coredns"}]
"""


def server_url(slot: Slot) -> str:
    return f"https://{slot.host}:{API_PORT}"


def etcd_command(slot: Slot, data: Path) -> list[str]:
    client, peer = f"http://{slot.etcd_address}:2379", f"http://{slot.etcd_address}:2380"
    urls = [f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
    cluster = [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=e2e={peer}", "--name=e2e"]
    # A test cluster is discarded as a whole, so fsync has no benefit.
    return ["/usr/bin/etcd", f"--data-dir={data}", *urls, *cluster, "--unsafe-no-fsync"]


def apiserver_command(slot: Slot, binary: Path, pki: Authority) -> list[str]:
    certificate, key = pki.files("apiserver")
    kubelet_certificate, kubelet_key = pki.files("apiserver-kubelet")
    proxy_certificate, proxy_key = pki.files("front-proxy")
    flags = {
        "advertise-address": slot.host_address,
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "bind-address": slot.host_address,
        "cert-dir": certificate.parent,
        "client-ca-file": pki.certificate,
        "enable-admission-plugins": "NodeRestriction",
        # With this, webhooks are called at their pods' addresses, and the machine needs no kube-proxy.
        "enable-aggregator-routing": "true",
        "etcd-servers": f"http://{slot.etcd_address}:2379",
        "kubelet-client-certificate": kubelet_certificate,
        "kubelet-client-key": kubelet_key,
        "kubelet-preferred-address-types": "InternalIP",
        "proxy-client-cert-file": proxy_certificate,
        "proxy-client-key-file": proxy_key,
        # The names prevent other clients of this authority from acting as the proxy.
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-client-ca-file": pki.certificate,
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "secure-port": API_PORT,
        "service-account-issuer": f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        "service-account-key-file": pki.service_account_key,
        "service-account-signing-key-file": pki.service_account_key,
        "service-cluster-ip-range": slot.service_network,
        "tls-cert-file": certificate,
        "tls-private-key-file": key,
    }
    return [str(binary), *(f"--{name}={value}" for name, value in flags.items())]


def controller_manager_command(slot: Slot, binary: Path, pki: Authority, kubeconfig: Path) -> list[str]:
    flags = {
        "bind-address": slot.host_address,
        "cert-dir": kubeconfig.parent,
        "cluster-signing-cert-file": pki.certificate,
        "cluster-signing-key-file": pki.key,
        "kubeconfig": kubeconfig,
        "leader-elect": "false",
        "root-ca-file": pki.certificate,
        "service-account-private-key-file": pki.service_account_key,
        "use-service-account-credentials": "true",
    }
    return [str(binary), *(f"--{name}={value}" for name, value in flags.items())]


def scheduler_command(slot: Slot, binary: Path, kubeconfig: Path) -> list[str]:
    flags = {"bind-address": slot.host_address, "cert-dir": kubeconfig.parent, "kubeconfig": kubeconfig}
    return [str(binary), "--leader-elect=false", *(f"--{name}={value}" for name, value in flags.items())]


class ControlPlane:
    """Starts the control plane of one cluster. ``flags`` has further program flags, by component and name."""

    def __init__(
        self,
        paths: ClusterPaths,
        slot: Slot,
        binary: Callable[[str], Path],
        flags: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        self._paths = paths
        self._slot = slot
        self._binary = binary
        self._flags = flags
        self.pki = Authority(paths.pki)

    def start(self) -> None:
        """Start everything. Return when the API server is ready. Raises NotReadyError with the log of the failure."""
        etcd = self._start("etcd", etcd_command(self._slot, self._paths.data / "etcd"))
        self._make_identities()
        self.start_api_server(lambda: etcd.poll() is None)
        self._start_clients()

    def start_api_server(self, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Start the API server. Return when it is ready. Raises NotReadyError with its log."""
        server = self._start(API_SERVER, apiserver_command(self._slot, self._binary(API_SERVER), self.pki))
        log = self._log(API_SERVER)
        wait_for(
            "the API server to be ready",
            self.is_ready,
            START_SECONDS,
            log,
            lambda: may_go_on() and server.poll() is None,
        )

    def stop_api_server(self) -> None:
        """Stop the API server. etcd and all clients keep running."""
        kill([owned.pid for owned in owned_by(self._paths.name) if owned.component == API_SERVER])
        # A killed process with many threads stays a zombie for some time before the kernel closes its listening
        # sockets.
        wait_for("the API server's port to be free", self._may_listen, START_SECONDS)

    def _may_listen(self) -> bool:
        with socket.socket(socket.AF_INET6 if self._slot.ipv6 else socket.AF_INET) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((str(self._slot.host_address), API_PORT))
            except OSError:
                return False
        return True

    def is_ready(self) -> bool:
        try:
            self.kubectl("get", "--raw", "/readyz")
        except CommandFailedError:
            return False
        return True

    def kubectl(self, *words: str, stdin: bytes | None = None) -> str:
        return run(self._binary("kubectl"), "--kubeconfig", self._paths.kubeconfig, *words, stdin=stdin)

    def _make_identities(self) -> None:
        self.pki.create()
        identities = control_plane_identities(self._slot)
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.pki.issue, identities))
        for identity in identities:
            if not identity.serves:
                text = self.pki.kubeconfig(identity.file, server_url(self._slot))
                self._kubeconfig(identity.file).write_text(text)
        shutil.copy(self._kubeconfig("admin"), self._paths.kubeconfig)

    def _start_clients(self) -> None:
        manager, scheduler = self._kubeconfig("controller-manager"), self._kubeconfig("scheduler")
        binary = self._binary("kube-controller-manager")
        self._start("kube-controller-manager", controller_manager_command(self._slot, binary, self.pki, manager))
        self._start("kube-scheduler", scheduler_command(self._slot, self._binary("kube-scheduler"), scheduler))
        self.kubectl("apply", "-f", "-", stdin=DNS_RBAC.encode())
        corefile = self._paths.state / "Corefile"
        values = {
            "address": self._slot.host_address,
            "host": self._slot.host,
            "port": DNS_READY_PORT,
            "domain": CLUSTER_DOMAIN,
        }
        corefile.write_text(COREFILE.format(kubeconfig=self._kubeconfig("coredns"), **values))
        dns = self._start("coredns", [str(self._binary("coredns")), "-conf", str(corefile)])
        url = f"http://{self._slot.host}:{DNS_READY_PORT}/ready"
        wait_for("DNS to answer", lambda: answers(url), START_SECONDS, self._log("coredns"), lambda: dns.poll() is None)

    def _start(self, component: str, argv: list[str]) -> subprocess.Popen[bytes]:
        more = [f"--{name}={value}" for name, value in self._flags.get(component, {}).items()]
        return start_daemon(self._paths.name, component, [*argv, *more], self._log(component))

    def _kubeconfig(self, identity: str) -> Path:
        return self._paths.pki / f"{identity}.kubeconfig"

    def _log(self, component: str) -> Path:
        return self._paths.logs / f"{component}.log"
