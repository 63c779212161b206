"""kubectl's plug-in `stoker`: an archive with the CLI and its libraries, and the manifest for krew."""

import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from string import Template

import yaml

from e2e.cluster.errors import CommandFailedError
from e2e.cluster.processes import run
from tools.release.archives import PROGRAM, ArchivedFile
from tools.release.errors import ReleaseError

HERE = Path(__file__).parent
# Platforms of krew, and uv's names of them.
PLATFORMS = {
    "linux/amd64": "x86_64-unknown-linux-gnu",
    "linux/arm64": "aarch64-unknown-linux-gnu",
    "darwin/arm64": "aarch64-apple-darwin",
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Files that differ between Pythons, or that the CLI does not use.
_LEFT_OUT = re.compile(
    r"bin/.*|.*\.pyc|.*\.pyi|\.lock|.+\.dist-info/(?!METADATA$|licenses/).+"
    r"|kubernetes/(?:aio/)?client/(?:api|models)/(?!__init__|v1_(?:managed_fields_entry|object_meta|owner_reference)\.).+"
)


def plugin_files(wheel: Path, lock: Path, platform: str, pythons: tuple[str, ...] = PYTHONS) -> dict[str, ArchivedFile]:
    """Return the archive's files for one platform: compiled modules of all Pythons lie in one folder.

    Raises ReleaseError if a package has no wheel for the platform, or if Pythons need different files of one name.
    """
    libraries: dict[str, bytes] = {}
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            _install(lock, platform, python, Path(folder))
            merge(libraries, _files(Path(folder)), python)
    with zipfile.ZipFile(wheel) as archive:
        names = (name for name in archive.namelist() if not name.endswith("/"))
        merge(libraries, {name: archive.read(name) for name in names}, "the wheel")
    files = {f"lib/{name}": ArchivedFile(content) for name, content in libraries.items()}
    launcher = (HERE / "kubectl_stoker.py").read_bytes()
    return files | {"kubectl-stoker": ArchivedFile(launcher, PROGRAM)}


def archive_name(version: str, platform: str) -> str:
    """Return the name of a platform's archive."""
    return f"kubectl-stoker-{version}-{platform.replace('/', '-')}.tar.gz"


def manifest(version: str, url: str, sums: Mapping[str, str]) -> str:
    """Return krew's manifest. ``sums`` are the SHA-256 of the archives, by platform."""
    head = Template((HERE / "krew.yaml").read_text(encoding="utf-8")).substitute(version=version)
    platforms = [_platform(version, url, platform, digest) for platform, digest in sums.items()]
    return head + "\n".join(f"  {line}" for line in yaml.safe_dump({"platforms": platforms}).splitlines()) + "\n"


def merge(libraries: dict[str, bytes], more: Mapping[str, bytes], origin: str) -> None:
    """Add the files of one Python, without those that are left out. Raises ReleaseError if a file differs."""
    for name, content in more.items():
        if not _LEFT_OUT.fullmatch(name) and libraries.setdefault(name, content) != content:
            raise ReleaseError(f"{name} differs for {origin}: leave it out, or build one archive for each Python.")


def _platform(version: str, url: str, platform: str, digest: str) -> dict[str, object]:
    system, architecture = platform.split("/")
    return {
        "selector": {"matchLabels": {"os": system, "arch": architecture}},
        "uri": f"{url}/{archive_name(version, platform)}",
        "sha256": digest,
        "bin": "kubectl-stoker",
    }


def _install(lock: Path, platform: str, python: str, folder: Path) -> None:
    options: list[str | Path] = ["--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--target", folder]
    target = ["--python-platform", PLATFORMS[platform], "--python-version", python]
    try:
        run(Path(sys.executable).with_name("uv"), "pip", "install", *options, *target, "-r", lock)
    except CommandFailedError as error:
        raise ReleaseError(f"no plug-in for {platform} and Python {python}: {error.output.strip()}") from error


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
