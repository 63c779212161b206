"""The tutorial works, command by command, from the installation to the removal (conftest.py runs it last)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.cluster import NotReadyError
from e2e.cluster.images import BUSYBOX_IMAGE
from e2e.cluster.processes import wait_for
from e2e.support.bucket import Bucket
from e2e.support.built import IMAGE, ROOT
from e2e.support.walkthrough import Step, steps
from e2e.support.world import PATIENCE, RELEASE, SYSTEM, World

TUTORIAL = ROOT / "docs" / "getting-started" / "tutorial.md"
CRDS = ("datasets", "trainingjobs", "nodecaches", "datasetclasses", "tuningprofiles")


class Reader:
    """A person with a shell in a checkout, who repeats a command until it shows what the tutorial shows."""

    def __init__(self, world: World, folder: Path) -> None:
        self._folder, self._exports = folder, folder / ".exports"
        (folder / "charts").symlink_to(ROOT / "charts")
        programs = world.cluster.environment()
        kubeconfig = shutil.copy(programs["KUBECONFIG"], folder / ".kubeconfig")  # the tutorial changes its namespace
        path = f"{ROOT / '.venv/bin'}:{programs['PATH']}"
        self._environment = {**os.environ, **programs, "KUBECONFIG": str(kubeconfig), "PATH": path}
        self._exports.touch()

    def follow(self, step: Step) -> None:
        """Run a step. Raises AssertionError if it fails, or never prints what it should."""
        if step.expected is None:
            code, output = self._run(step)
            assert code == 0, f"line {step.line} of the tutorial failed:\n{step.command}\n{output}"
            return
        printed = ""

        def is_shown() -> bool:
            nonlocal printed
            printed = self._run(step)[1]
            return not step.difference(printed)

        try:
            wait_for(f"line {step.line} of the tutorial", is_shown, PATIENCE, poll_seconds=1)
        except NotReadyError as error:
            raise AssertionError(f"{error}\n{step.difference(printed)}") from error

    def _run(self, step: Step) -> tuple[int, str]:
        script = f"source {self._exports}\n{step.command}\nexport -p > {self._exports}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self._folder,
            env=self._environment,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout


@pytest.fixture
def bare_cluster(world: World) -> World:
    """Remove Stoker with its CRDs and its namespace."""
    world.removals.finish()
    world.cluster.helm("uninstall", RELEASE, "-n", SYSTEM, "--wait", "--timeout", f"{PATIENCE:.0f}s")
    world.kubectl("delete", "crd", *(f"{kind}.stoker.dev" for kind in CRDS))
    world.kubectl("delete", "namespace", SYSTEM)
    return world


def test_every_command_of_the_tutorial_works_and_prints_what_it_shows(bare_cluster: World, tmp_path: Path) -> None:
    server, (repository, _, tag) = bare_cluster.cluster.s3, IMAGE.rpartition(":")
    variables = {
        # The nodes share a disk with all other data here.
        "SETTINGS": f"image.repository={repository},image.tag={tag},sidecar.floor.bytes=2%",
        "ENDPOINT": server.endpoint,
        "AWS_REGION": server.region,
        "BUCKET": Bucket(server, "tutorial").name,
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "BUSYBOX": BUSYBOX_IMAGE,
    }
    reader = Reader(bare_cluster, tmp_path)
    for step in steps(TUTORIAL.read_text(encoding="utf-8"), variables):
        reader.follow(step)
