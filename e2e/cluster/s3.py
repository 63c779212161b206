"""A real S3 server (versitygw over a folder) on the cluster's bridge, at one address for machine and pods."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.paths import ClusterPaths
from e2e.cluster.processes import answers, kill, owned_by, start_daemon, wait_for
from e2e.cluster.slots import Slot

PORT = 7480
REGION = "us-east-1"
COMPONENT = "s3"
START_SECONDS = 20.0


@dataclass(frozen=True)
class Keys:
    """The root account of the server."""

    access_key: str
    secret_key: str


class S3Server:
    """The S3 server of a cluster. Its data survive a stop, but not the cluster's removal."""

    region = REGION

    def __init__(self, paths: ClusterPaths, slot: Slot, binary: Callable[[str], Path]) -> None:
        self._paths = paths
        self._slot = slot
        self._binary = binary

    @property
    def endpoint(self) -> str:
        return f"http://{self._slot.host}:{PORT}"

    @property
    def data_dir(self) -> Path:
        """The folder whose subfolders are the buckets."""
        return self._paths.s3_data

    @property
    def access_key(self) -> str:
        return self._keys.access_key

    @property
    def secret_key(self) -> str:
        return self._keys.secret_key

    @property
    def _keys(self) -> Keys:
        file = self._paths.state / "s3-keys.json"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            keys = {"access_key": f"E2E{secrets.token_hex(8).upper()}", "secret_key": secrets.token_hex(20)}
            file.write_text(json.dumps(keys))
            file.chmod(0o600)
        return Keys(**json.loads(file.read_text()))

    def is_running(self) -> bool:
        return any(owned.component == COMPONENT for owned in owned_by(self._paths.name))

    def start(self) -> None:
        """Start the server, unless it runs, and wait until it answers. Raises NotReadyError."""
        if self.is_running():
            return
        self.data_dir.mkdir(parents=True, exist_ok=True)
        log = self._paths.logs / "s3.log"
        # The environment passes the keys, because other users of the machine cannot read it.
        environment = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        address = f"{self._slot.host}:{PORT}"
        argv = [str(self._binary("versitygw")), "--port", address, "--region", REGION, "--quiet", "--keep-alive"]
        process = start_daemon(self._paths.name, COMPONENT, [*argv, "posix", str(self.data_dir)], log, environment)
        wait_for("the S3 server to answer", self._answers, START_SECONDS, log, lambda: process.poll() is None)

    def stop(self) -> None:
        """Kill the server. Its data stay."""
        kill([owned.pid for owned in owned_by(self._paths.name) if owned.component == COMPONENT])

    def _answers(self) -> bool:
        return answers(self.endpoint, refusal_counts=True)  # the request is unsigned, so the answer is a refusal
