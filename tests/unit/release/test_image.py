"""The digest of an image depends only on its files and settings, and its bill names its packages."""

import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.support.cases import cases
from tools.release.image import OciImage, write_oci_archive
from tools.release.sbom import bill, packages

STATUS = """\
Package: libfuse3-3
Status: install ok installed
Architecture: amd64
Version: 3.14.0-4

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


@dataclass(frozen=True)
class Entry:
    name: str
    content: str = ""
    mode: int = 0o644
    mtime: int = 1
    owner: str = "root"


BASE = (Entry("etc/passwd", "root"), Entry("var/lib/dpkg/status", STATUS))
PYTHON = (Entry("opt/Ruamel.Yaml-1.dist-info/METADATA", "Name: Ruamel.Yaml\nVersion: 1.0\n\nText: no\n"),)


def tar(entries: Iterable[Entry]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.size, info.mode, info.mtime, info.uname = len(entry.content), entry.mode, entry.mtime, entry.owner
            archive.addfile(info, io.BytesIO(entry.content.encode()))
    return buffer.getvalue()


def written(folder: Path, *layers: Iterable[Entry], **config: Any) -> OciImage:
    settings = {"Env": ["A=b"], "Labels": {"io.buildah.version": "1", "org.opencontainers.image.title": "stoker"}}
    built = {"architecture": "amd64", "os": "linux", "config": settings} | config
    manifest = [{"Config": "c", "RepoTags": ["stoker:1.2.3"], "Layers": [str(n) for n, _ in enumerate(layers)]}]
    archive = folder / "docker.tar"
    parts = [Entry("manifest.json", json.dumps(manifest)), Entry("c", json.dumps(built))]
    parts += [Entry(str(number), tar(layer).decode()) for number, layer in enumerate(layers)]
    archive.write_bytes(tar(parts))
    return write_oci_archive(archive, folder / "oci.tar", {"revision": "abc"}, "2026-01-01T00:00:00Z")


@pytest.fixture
def image(tmp_path: Path) -> OciImage:
    return written(tmp_path, BASE, PYTHON)


@cases(
    "layer",
    times=[replace(entry, mtime=99) for entry in BASE],
    owners=[replace(entry, owner="builder") for entry in BASE],
    names=[replace(entry, name=f"./{entry.name}") for entry in BASE],
    a_log=[*BASE, Entry("var/log/apt/term.log", "today")],
    the_machines_mirror=[*BASE, Entry("etc/apt/sources.list", "deb mirror")],
    the_machines_name=[*BASE, Entry("etc/hostname", "builder")],
)
def test_the_digest_is_the_same_with_other(image: OciImage, layer: list[Entry], tmp_path: Path) -> None:
    assert written(tmp_path, layer, PYTHON).digest == image.digest


@cases(
    "layer",
    content=[replace(BASE[0], content="toor"), BASE[1]],
    modes=[replace(BASE[0], mode=0o600), BASE[1]],
    files=[*BASE, Entry("etc/group")],
)
def test_the_digest_changes_with(image: OciImage, layer: list[Entry], tmp_path: Path) -> None:
    assert written(tmp_path, layer, PYTHON).digest != image.digest


def test_history_and_time_of_the_build_are_left_out(image: OciImage, tmp_path: Path) -> None:
    later = written(tmp_path, BASE, PYTHON, created="now", history=[{"created_by": "RUN pip --index secret"}])
    assert later.digest == image.digest


def test_an_archive_is_an_oci_layout_whose_blobs_have_their_digests(image: OciImage, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "oci.tar") as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        blobs = {name: stream.read() for name, stream in files.items() if stream}
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["digest"] == f"sha256:{image.digest}"
    manifest = json.loads(blobs[f"blobs/sha256/{image.digest}"])
    sizes = {blob["digest"]: blob["size"] for blob in [manifest["config"], *manifest["layers"]]}
    assert sizes == {digest: len(blobs[f"blobs/{digest.replace(':', '/')}"]) for digest in sizes}
    assert (entry["platform"], image.platform) == ({"architecture": "amd64", "os": "linux"}, "linux/amd64")
    config = json.loads(blobs[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert config["config"]["Labels"] == {"org.opencontainers.image.title": "stoker", "revision": "abc"}


def test_a_bill_names_installed_packages_and_is_valid(image: OciImage) -> None:
    document = bill("stoker", "1.2.3", image.digest, packages(image.descriptions), 0)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    assert [part["purl"] for part in json.loads(document)["components"]] == [
        "pkg:deb/debian/libfuse3-3@3.14.0-4?arch=amd64",
        "pkg:pypi/ruamel-yaml@1.0",
    ]


def test_a_bill_of_the_same_image_is_the_same(image: OciImage) -> None:
    first, second = (bill("stoker", "1", image.digest, packages(image.descriptions), 0) for _ in range(2))
    assert first == second
