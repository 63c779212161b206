"""The agent's settings: command line, then environment, then defaults. Read by main alone."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from stoker_kube.access.service_account import ACCOUNT
from stoker_sidecar.agent.core.grants import HostFolder, parse_host_folders
from stoker_sidecar.wire.access_protocol import is_cpu_share
from stoker_sidecar.wire.config.disk_floor import FLOOR_BYTES, FLOOR_INODES, DiskFloor
from stoker_sidecar.wire.config.folders import FolderSpec, parse_folders
from stoker_sidecar.wire.config.settings import AbsolutePath, Bytes, FloorSetting, LogLevel, ProcessSettings, setting
from stoker_tuning.frameworks.answers import parse_names


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _named(name: str) -> str:
    if not name:
        raise ValueError("the name of the node is missing: set NODE_NAME from the downward API (spec.nodeName)")
    return name


def _cpu_share(text: str) -> str:
    if not is_cpu_share(text):
        raise ValueError(f"{text!r} must be a share of a core between 0.0001 and 1, such as 0.01")
    return text


class AgentSettings(ProcessSettings):
    """Settings of the agent. Folders have the same path on the host and in this container."""

    program: ClassVar[str] = "python -m stoker_sidecar.agent"
    about: ClassVar[str] = "The node's agent: Kubernetes, CSI and HTTP."

    # From the downward API; the name is the NodeCache's too, and at the address other nodes fetch manifests.
    node_name: Annotated[str, AfterValidator(_named)] = setting("name of this node", "", variable="NODE_NAME")
    pod_ip: str = setting("address of this pod", "", variable="POD_IP")
    namespace: str = setting(
        "namespace that Stoker is installed in; none: this node has no account of its own", "", variable="POD_NAMESPACE"
    )
    kubeconfig: Annotated[Path | None, BeforeValidator(lambda text: text or None)] = setting(
        "kubeconfig of the cluster; none: the pod's service account", ""
    )
    service_account: AbsolutePath = setting("folder of the pod's token and of the authority to trust", str(ACCOUNT))
    kubelet_dir: AbsolutePath = setting("root folder of the kubelet", "/var/lib/kubelet")
    cache_root: Annotated[tuple[FolderSpec, ...], BeforeValidator(parse_folders)] = setting(
        "folders of the cached bytes, by commas, the preferred one first; memory:/path for a tmpfs",
        "/var/lib/stoker/cache",
    )
    mount_root: AbsolutePath = setting(
        "folder of the FUSE and overlay mounts; shared with the node (Bidirectional)", "/var/lib/stoker/mnt"
    )
    overlay: Literal["Auto", "Off"] = setting("mount overlays where the node can: Auto or Off", "Auto")
    confine: Literal["Auto", "Off"] = setting(
        "whether the keeper has fetcher and FUSE servers held to their files", "Auto"
    )
    observe: Literal["Auto", "Off"] = setting("look at what pods read, where the kernel can: Auto or Off", "Auto")
    observer_cpu: Annotated[str, AfterValidator(_cpu_share)] = setting(
        "share of a core that the keeper gives the observer, to be told", "0.01"
    )
    plugins: Annotated[tuple[str, ...], BeforeValidator(parse_names)] = setting(
        "names of the framework plug-ins that may be asked, by commas; empty: none", ""
    )
    order_plugins: Annotated[tuple[str, ...], BeforeValidator(parse_names)] = setting(
        "names of the order plug-ins that may be asked, by commas; empty: none", ""
    )
    cgroup_root: AbsolutePath = setting("the node's cgroup v2 file system, where it is mounted", "/sys/fs/cgroup")
    floor_bytes: FloorSetting = setting(FLOOR_BYTES, str(DiskFloor().bytes))
    floor_inodes: FloorSetting = setting(FLOOR_INODES, str(DiskFloor().inodes))
    state_dir: AbsolutePath = setting("folder of what must survive the pod", "/var/lib/stoker/state")
    run_dir: AbsolutePath = setting("folder of the sockets between the sidecar's processes", "/run/stoker")
    ambient_namespaces: Annotated[tuple[str, ...], BeforeValidator(_patterns)] = setting(
        "patterns of the namespaces, by commas, whose Datasets may use the node's own credentials", ""
    )
    host_folder_grants: Annotated[tuple[HostFolder, ...], BeforeValidator(parse_host_folders)] = setting(
        "which namespaces may read which of STOKER_HOST_FOLDERS, as JSON", "[]"
    )
    peers: Literal["Auto", "Off"] = setting(
        "give other nodes what they are to have too and is here: Auto or Off", "Auto"
    )
    peer_uploads: Annotated[int, Field(ge=0, le=1024)] = setting(
        "files and pieces that are given to other nodes at a time; 0: none", "16"
    )
    peer_bytes_per_second: Bytes = setting("bytes a second that are given to other nodes; 0: no limit", "0")
    http_port: int = setting("port of health and metrics", "8081")
    peer_port: int = setting("port of manifests, for other nodes' sidecars alone", "8082")
    learning_port: int = setting("port of rules and history, on the pod's loopback address alone", "8083")
    # Well under the 2 minutes that the kubelet gives a call.
    publish_wait: float = setting("seconds that a volume waits for plan and manifest", "50")
    log_level: LogLevel = setting("one of debug, info, warning, error", "info")
    heartbeat_fd: int | None = setting("the line to the keeper that started this process", None)
