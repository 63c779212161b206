"""The keeper's command line. The environment variable in each flag's help sets the same value."""

import argparse
import os
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_api.log_lines import FORMAT as LOG_FORMAT
from stoker_sidecar.wire.access_protocol import SOCKET, is_cpu_share
from stoker_sidecar.wire.config.folders import REPORTS, FolderSpec, parse_folders
from stoker_sidecar.wire.plugins_protocol import SOCKET as ASKER_SOCKET

# The image's unprivileged user: owns the cache, and runs all processes with network access or FUSE requests.
_UNPRIVILEGED = 65532
# Runs third-party plug-ins, and owns nothing.
_ASKER = 65531
_LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class KeeperSettings:
    """The keeper's settings, one for each flag; see ``--help``."""

    run_dir: Path
    mount_root: Path
    cache: tuple[FolderSpec, ...]
    run_as: int | None
    state_dir: Path | None
    identity: str
    http_port: int
    unmount_on_exit: bool
    allow_other: bool
    confine: bool
    reports_root: Path | None
    observe: bool
    observer_cpu: str
    plugins: str
    order_plugins: str
    plugins_run_as: int | None
    pinned_memory: bool
    holder_socket: Path | None
    log_level: str
    agent_command: tuple[str, ...]
    fetcher_command: tuple[str, ...]

    @property
    def keeper_socket(self) -> Path:
        """The agent's socket to the keeper."""
        return self.run_dir / "keeper.sock"

    @property
    def reports_socket(self) -> Path:
        """The agent's socket to the report listener."""
        return self.run_dir / "reports.sock"

    @property
    def fetcher_socket(self) -> Path:
        """The socket of the agent and the FUSE servers to the fetcher."""
        return self.run_dir / "fetcher.sock"

    @property
    def access_socket(self) -> Path | None:
        """The socket for access reports of the observer and the FUSE servers to the agent; None: no reports."""
        return self.run_dir / SOCKET if self.observe else None

    @property
    def reader_socket(self) -> Path:
        """The agent's socket for reading files of versions."""
        return self.run_dir / "reader.sock"

    @property
    def asker_socket(self) -> Path:
        """Where the agent asks plug-ins."""
        return self.run_dir / ASKER_SOCKET


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stoker-sidecar",
        description="Keeps the node's agent, fetcher and FUSE servers running, and FUSE mounts alive when one dies.",
        epilog=f"What follows -- is passed to the agent. {LOG_FORMAT}=json: all processes log in JSON.",
    )

    def flag(name: str, default: str, text: str) -> None:
        variable = "STOKER_" + name.upper().replace("-", "_")
        value = environment.get(variable, default)
        parser.add_argument(f"--{name}", default=value, help=f"{text} [{variable}; default: {default or 'none'}]")

    python = shlex.quote(sys.executable)
    flag("run-dir", "/run/stoker", "folder of the sockets between the sidecar's processes")
    flag("mount-root", "/var/lib/stoker/mnt", "folder of the FUSE mounts; must be shared with the node (Bidirectional)")
    flag("cache-root", "/var/lib/stoker/cache", "folders of the cached bytes, by commas; memory:/path for a tmpfs")
    flag("run-as", str(_UNPRIVILEGED), "user and group id of fetcher and FUSE servers; empty: the keeper's own")
    flag("state-dir", "", "folder of the node, in which the keepers of two pods find each other; empty: there is one")
    flag("identity", socket.gethostname(), "what this keeper is remembered by there: the pod's name")
    flag("http-port", "8081", "the agent's port, on which the keeper answers the kubelet's probes while it waits")
    flag("on-exit", "unmount", "unmount: take the FUSE mounts away at the end; keep: leave them for the next keeper")
    flag("allow-other", "", "yes: mounts of a keeper without root are for all users too, as root's always are")
    flag("confine", "Auto", "hold fetcher and FUSE servers to the files that they need, by Landlock: Auto or Off")
    flag("reports", "Off", "listen to what pods report of their training: On or Off")
    flag("reports-root", "", "folder of the pods' report folders; empty: one in the state folder")
    flag("observe", "Auto", "observe what pods read: Auto (where the kernel can) or Off")
    flag("observer-cpu", "0.01", "share of a core that looking at native and overlay mounts may cost")
    flag("plugins", "", "names of the framework plug-ins that may be asked, by commas; empty: none")
    flag("order-plugins", "", "names of the order plug-ins that may be asked, by commas; empty: none")
    flag("plugins-run-as", str(_ASKER), "user and group id of plug-ins, that nobody else has; empty: the keeper's own")
    flag("pinned-memory", "0", "bytes that Datasets may keep in memory: if any, the fetcher is let lock memory")
    flag("holder-socket", "", "socket of the process that holds the FUSE mounts while no keeper runs; empty: none")
    flag("log-level", "info", f"of keeper, fetcher and FUSE servers: one of {', '.join(_LOG_LEVELS)}")
    flag("agent-command", f"{python} -m stoker_sidecar.agent", "how the agent is started; empty: no agent")
    flag("fetcher-command", f"{python} -m stoker_sidecar.fetcher.main", "how the fetcher is started; empty: no fetcher")
    parser.add_argument("agent_arguments", nargs="*", metavar="-- AGENT ARGUMENT", help="passed to the agent")
    return parser


def parse(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> KeeperSettings:
    """Parse the command line, then the environment, then defaults. Exit with a sentence on an invalid setting."""
    parser = _parser(environment)
    options = parser.parse_args(argv)
    _check(parser, options, environment)
    try:
        cache = parse_folders(options.cache_root)
    except ValueError as error:
        parser.error(f"--cache-root: {error}")
    agent = shlex.split(options.agent_command)
    return KeeperSettings(
        run_dir=Path(options.run_dir),
        mount_root=Path(options.mount_root),
        cache=cache,
        run_as=int(options.run_as) if options.run_as else None,
        log_level=options.log_level.lower(),
        state_dir=Path(options.state_dir) if options.state_dir else None,
        identity=options.identity,
        http_port=int(options.http_port),
        unmount_on_exit=options.on_exit == "unmount",
        allow_other=options.allow_other == "yes",
        confine=options.confine == "Auto",
        reports_root=_reports_root(options) if options.reports == "On" else None,
        observe=options.observe != "Off" and bool(agent),
        observer_cpu=options.observer_cpu,
        plugins=options.plugins if agent else "",
        order_plugins=options.order_plugins if agent else "",
        plugins_run_as=int(options.plugins_run_as) if options.plugins_run_as else None,
        pinned_memory=options.pinned_memory not in ("", "0"),
        holder_socket=Path(options.holder_socket) if options.holder_socket else None,
        agent_command=tuple(agent + options.agent_arguments) if agent else (),
        fetcher_command=tuple(shlex.split(options.fetcher_command)),
    )


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Exit with a sentence on an invalid setting."""
    if options.on_exit not in ("unmount", "keep"):
        parser.error(f"--on-exit {options.on_exit!r} must be unmount or keep")
    if options.allow_other not in ("yes", ""):
        parser.error(f"--allow-other {options.allow_other!r} must be yes or empty")
    if options.confine not in ("Auto", "Off"):
        parser.error(f"--confine {options.confine!r} must be Auto or Off")
    if options.reports not in ("On", "Off"):
        parser.error(f"--reports {options.reports!r} must be On or Off")
    if options.reports == "On" and not options.state_dir and not options.reports_root:
        parser.error("--reports On needs a --state-dir, or a --reports-root: the pods' folders are in it")
    if options.observe not in ("Auto", "Off"):
        parser.error(f"--observe {options.observe!r} must be Auto or Off")
    if not is_cpu_share(options.observer_cpu):
        parser.error(f"--observer-cpu {options.observer_cpu!r} must be between 0.0001 and 1, such as 0.01")
    if not options.http_port.isdecimal():
        parser.error(f"--http-port {options.http_port!r} must be a port such as 8081")
    if options.run_as and not options.run_as.isdecimal():
        parser.error(f"--run-as {options.run_as!r} must be a user id such as {_UNPRIVILEGED}")
    if options.plugins_run_as and not options.plugins_run_as.isdecimal():
        parser.error(f"--plugins-run-as {options.plugins_run_as!r} must be a user id such as {_ASKER}")
    if options.log_level.lower() not in _LOG_LEVELS:
        parser.error(f"--log-level {options.log_level!r} must be one of {', '.join(_LOG_LEVELS)}")
    if environment.get(LOG_FORMAT, "text") not in ("text", "json"):
        parser.error(f"{LOG_FORMAT} is {environment[LOG_FORMAT]!r}: it must be text or json")


def _reports_root(options: argparse.Namespace) -> Path:
    return Path(options.reports_root) if options.reports_root else Path(options.state_dir) / REPORTS
