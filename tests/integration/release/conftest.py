"""A release of this work tree, built once, and a registry to push it to."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster.build import Programs
from e2e.cluster.errors import CommandFailedError
from e2e.cluster.processes import run
from tests.support.ports import free_ports
from tests.support.waiting import wait_until
from tools.release.version import current

ROOT = Path(__file__).resolve().parents[3]
PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class Release:
    """The folder of a built release, its version, and the private key that signed it."""

    folder: Path
    version: str
    key: Path

    def file(self, pattern: str) -> Path:
        """Return the only file that matches."""
        (path,) = self.folder.glob(pattern)
        return path


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Run `make release` for one platform of the plug-in."""
    folder = tmp_path_factory.mktemp("release")
    key = folder / "key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    options: list[str | Path] = ["--allow-dirty", "--platform", PLATFORM, "--key", key, "--out", folder / "dist"]
    subprocess.run([sys.executable, "-m", "tools.release", "build", *options], cwd=ROOT, check=True)
    version = current(ROOT)
    return Release(folder / "dist" / version, version, key)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve an empty registry on loopback. Yields its host and port."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    argv: list[str | Path] = [Programs().path("crane"), "registry", "serve", "--address", address]
    with (tmp_path_factory.mktemp("registry") / "log").open("wb") as log, subprocess.Popen(argv, stderr=log) as server:
        try:
            wait_until(lambda: _answers(address))
            yield address
        finally:
            server.terminate()


def _answers(address: str) -> bool:
    try:
        run(Programs().path("crane"), "catalog", "--insecure", address)
    except CommandFailedError:
        return False
    return True
