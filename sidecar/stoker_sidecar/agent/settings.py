"""The agent's settings: command line, then environment, then defaults. Read by main alone."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.wire.cache_folder import FolderSpec, parse_folders

LOG_LEVELS = ("debug", "info", "warning", "error")
OVERLAY = ("Auto", "Off")


@dataclass(frozen=True)
class NodeSettings:
    """Who this node is."""

    name: str  # the Node's name, from the downward API: it names the NodeCache
    address: str  # the pod's address, where other nodes fetch manifests; empty: nobody can
    kubeconfig: Path | None  # None in a cluster: the pod's own service account


@dataclass(frozen=True)
class PathSettings:
    """Folders, as the host and this container both name them."""

    kubelet_dir: Path  # /var/lib/kubelet on most distributions
    mount_root: Path  # FUSE and overlay mounts; shared with the host (Bidirectional)
    state_dir: Path  # survives the pod, so that its successor knows every mount
    run_dir: Path  # sockets between the sidecar's processes; the pod's alone

    @property
    def keeper_socket(self) -> Path:
        """Where the keeper listens."""
        return self.run_dir / "keeper.sock"

    @property
    def fetcher_socket(self) -> Path:
        """Where the fetcher listens."""
        return self.run_dir / "fetcher.sock"

    @property
    def mount_table(self) -> Path:
        """Which volumes are published."""
        return self.state_dir / "mounts.json"

    @property
    def metadata_root(self) -> Path:
        """Metadata layers of overlays: an inode for each file. Root's alone, since the agent writes and deletes there as root."""
        return self.state_dir / "metadata"


@dataclass(frozen=True)
class AgentSettings:
    """All of them."""

    node: NodeSettings
    paths: PathSettings
    cache: tuple[FolderSpec, ...]  # the preferred one first
    http_port: int  # 8081: health, metrics, manifests
    publish_wait: float  # seconds; well under the 2 minutes that the kubelet gives a call
    overlay: bool  # False: not even where the node can
    log_level: str
    lifeline_fd: int | None  # None: no keeper started this process


def parse(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> AgentSettings:
    """Exits with a sentence on a wrong value."""
    parser = _parser(environment)
    options = parser.parse_args(argv)
    if not options.node_name:
        parser.error("the name of the node is missing: set NODE_NAME from the downward API (spec.nodeName)")
    if options.log_level.lower() not in LOG_LEVELS:
        parser.error(f"--log-level {options.log_level!r} must be one of {', '.join(LOG_LEVELS)}")
    if options.overlay not in OVERLAY:
        parser.error(f"--overlay {options.overlay!r} must be {' or '.join(OVERLAY)}")
    paths = {name: _folder(parser, name, getattr(options, name)) for name in PathSettings.__annotations__}
    kubeconfig = Path(options.kubeconfig) if options.kubeconfig else None
    return AgentSettings(
        node=NodeSettings(options.node_name, options.pod_ip, kubeconfig),
        paths=PathSettings(**paths),
        cache=_cache(parser, options.cache_root),
        http_port=options.http_port,
        publish_wait=options.publish_wait,
        overlay=options.overlay == OVERLAY[0],
        log_level=options.log_level.upper(),
        lifeline_fd=options.lifeline_fd,
    )


def _folder(parser: argparse.ArgumentParser, name: str, value: str) -> Path:
    path = Path(value)
    if not path.is_absolute():
        parser.error(f"--{name.replace('_', '-')} {value!r} must be an absolute path")
    return path


def _cache(parser: argparse.ArgumentParser, value: str) -> tuple[FolderSpec, ...]:
    try:
        return parse_folders(value)
    except ValueError as error:
        parser.error(f"--cache-root: {error}")


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stoker_sidecar.agent.main", description="The node's agent: Kubernetes, CSI and HTTP."
    )

    def flag(name: str, variable: str, default: str, text: str, kind: type = str) -> None:
        value = environment.get(variable, default)
        parser.add_argument(
            f"--{name}", default=value, type=kind, help=f"{text} [{variable}; default: {default or 'none'}]"
        )

    flag("node-name", "NODE_NAME", "", "name of this node")
    flag("pod-ip", "POD_IP", "", "address of this pod")
    flag("kubeconfig", "STOKER_KUBECONFIG", "", "kubeconfig of the cluster; none: the pod's service account")
    flag("kubelet-dir", "STOKER_KUBELET_DIR", "/var/lib/kubelet", "root folder of the kubelet")
    flag(
        "cache-root",
        "STOKER_CACHE_ROOT",
        "/var/lib/stoker/cache",
        "folders of the cached bytes, by commas; memory:/path for a tmpfs",
    )
    flag("mount-root", "STOKER_MOUNT_ROOT", "/var/lib/stoker/mnt", "folder of the FUSE and overlay mounts")
    flag("overlay", "STOKER_OVERLAY", OVERLAY[0], f"mount overlays where the node can: {' or '.join(OVERLAY)}")
    flag("state-dir", "STOKER_STATE_DIR", "/var/lib/stoker/state", "folder of what must survive the pod")
    flag("run-dir", "STOKER_RUN_DIR", "/run/stoker", "folder of the sockets between the sidecar's processes")
    flag("http-port", "STOKER_HTTP_PORT", "8081", "port of health, metrics and manifests", int)
    flag("publish-wait", "STOKER_PUBLISH_WAIT", "50", "seconds that a volume waits for plan and manifest", float)
    flag("log-level", "STOKER_LOG_LEVEL", "info", f"one of {', '.join(LOG_LEVELS)}")
    parser.add_argument("--lifeline-fd", type=int, help="the line to the keeper that started this process")
    return parser
