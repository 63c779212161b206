"""A release's files work: the chart and the image from a registry, the plug-in on a plain Python, the wheels."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.build import Programs
from e2e.cluster.processes import run
from tests.integration.release.conftest import PLATFORM, ROOT, Release
from tests.repo.test_locks import versions
from tests.support.chart import CHART, helm

pytestmark = pytest.mark.timeout(900)  # the first build of the image takes minutes
# Imports every module of Stoker, so that files cut from the image are none that it needs.
IMPORT_ALL = """
import importlib, pkgutil
for root in ("stoker_orders", "stoker_tuning", "stoker_plugins", "stoker_api", "stoker_kube", "stoker_operator",
             "stoker_sidecar"):
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, root + "."):
        if not module.name.endswith(("__main__", ".pb.generate")):  # the latter runs at development
            importlib.import_module(module.name)
import stoker_cli.main
print("imported")
"""


def crane(*words: str | Path) -> str:
    return run(Programs().path("crane"), "--insecure", *words)


@pytest.fixture(scope="session")
def chart(release: Release, registry: str) -> str:
    """Push the chart. Return its address."""
    done = helm("push", str(release.file("stoker-*.tgz")), f"oci://{registry}/charts", "--plain-http")
    assert done.returncode == 0, done.stderr
    return f"oci://{registry}/charts/stoker"


@pytest.fixture(scope="session")
def image(release: Release, registry: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Push the image. Return its address."""
    layout = tmp_path_factory.mktemp("layout")
    run("tar", "-x", "-C", layout, "-f", release.file("*.oci.tar"))
    address = f"{registry}/stoker:{release.version}"
    crane("push", layout, address)
    return address


@pytest.fixture(scope="session")
def root(image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the image as the registry has it."""
    folder = tmp_path_factory.mktemp("root")
    crane("export", image, folder / "files.tar")
    run("tar", "-x", "-C", folder, "-f", folder / "files.tar")
    return folder


def rendered(*chart: str) -> list[Any]:
    done = helm("template", "stoker", *chart, "--namespace", "stoker-system")
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, yaml.CSafeLoader))


def test_the_chart_from_a_registry_renders_like_its_folder(release: Release, chart: str) -> None:
    assert rendered(chart, "--version", release.version, "--plain-http") == rendered(str(CHART))


def test_a_registry_has_the_image_by_its_digest(release: Release, image: str, tmp_path: Path) -> None:
    run("tar", "-x", "-C", tmp_path, "-f", release.file("*.oci.tar"), "index.json")
    (entry,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert crane("digest", image).strip() == entry["digest"]


@pytest.mark.root
def test_every_module_of_the_image_has_all_that_it_imports(root: Path) -> None:
    assert run("chroot", root, "/opt/stoker/bin/python", "-c", IMPORT_ALL) == "imported\n"


def test_no_file_of_the_image_names_the_machine_that_built_it(root: Path) -> None:
    assert not [name for name in ("etc/apt/sources.list", "etc/hostname", "var/log/dpkg.log") if (root / name).exists()]


def test_the_bill_names_every_locked_package_and_libfuse(release: Release) -> None:
    parts = json.loads(release.file("*.cdx.json").read_text())["components"]
    found = {part["purl"].partition("?")[0] for part in parts}
    locked = {f"pkg:pypi/{name}@{version}" for name, version in versions(ROOT / "requirements/image.txt").items()}
    assert locked <= found
    assert [purl for purl in found if purl.startswith("pkg:deb/debian/libfuse3-3@")]


def test_the_plugin_runs_from_its_archive_as_krew_installs_it(release: Release, tmp_path: Path) -> None:
    archive = release.file("kubectl-stoker-*.tar.gz")
    (platform,) = yaml.safe_load(release.file("*.krew.yaml").read_text())["spec"]["platforms"]
    assert platform["selector"]["matchLabels"] == dict(zip(("os", "arch"), PLATFORM.split("/"), strict=True))
    assert platform["sha256"] == sha256(archive.read_bytes()).hexdigest()
    run("tar", "-x", "-C", tmp_path, "-f", archive)
    program = tmp_path / "bin" / "kubectl-stoker"
    program.parent.mkdir()
    program.symlink_to(tmp_path / platform["bin"])
    plain = {"PATH": "/usr/bin:/bin"}
    assert "Usage: kubectl-stoker" in run(program, "--help", env=plain)
    assert release.version in run(program, "--version", env=plain)


def test_every_file_is_in_the_signed_list(release: Release) -> None:
    listed = {line.split()[1] for line in (release.folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in release.folder.iterdir()} - {"SHA256SUMS", "SHA256SUMS.sig"}
    run("ssh-keygen", "-Y", "check-novalidate", "-n", "stoker-release", "-s", release.folder / "SHA256SUMS.sig",
        stdin=release.folder / "SHA256SUMS")  # fmt: skip


def test_a_wrong_version_is_refused_with_a_sentence() -> None:
    argv = [sys.executable, "-m", "tools.release", "version", "1.2"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: '1.2' is not a version: write three numbers, such as 1.2.3.\n")
