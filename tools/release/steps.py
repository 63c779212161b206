"""The steps of a release. Each returns the files that it wrote."""

import os
import sys
import tempfile
from pathlib import Path

from e2e.cluster.build import Programs
from e2e.cluster.imagebuild import ImageBuilder, Request
from e2e.cluster.images import digest
from e2e.cluster.paths import cache_folder
from e2e.cluster.processes import run
from tools.release.archives import EPOCH, read_tar_gz, write_tar_gz
from tools.release.image import OciImage, write_oci_archive
from tools.release.plugin import PLATFORMS, archive_name, manifest, plugin_files
from tools.release.sbom import bill, packages
from tools.release.sources import Commit

NAME = "stoker"


def build_wheels(sources: Path, out: Path) -> list[Path]:
    """Build the wheels of Stoker and of stoker-client."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", out)
    run(sys.executable, "-m", "pip", "wheel", *options, sources, sources / "client", env=environment)
    return sorted(out.glob("*.whl"))


def package_chart(sources: Path, out: Path, version: str) -> Path:
    """Package the chart. Helm's archive has the time of packaging, so it is written again."""
    with tempfile.TemporaryDirectory() as folder:
        run(Programs().path("helm"), "package", sources / "charts" / NAME, "--destination", folder)
        files = read_tar_gz(Path(folder) / f"{NAME}-{version}.tgz")
    target = out / f"{NAME}-{version}.tgz"
    write_tar_gz(target, files)
    return target


def build_image(sources: Path, out: Path, version: str, commit: Commit) -> OciImage:
    """Build the image for this machine's platform, with its bill of materials."""
    tag = f"docker.io/library/{NAME}:{version}"
    archive = cache_folder() / "archives" / f"{NAME}-release.tar"
    ImageBuilder(print).build(Request(sources / "Dockerfile", tag, archive, sources, {"VERSION": version}))
    labels = {"org.opencontainers.image.revision": commit.name}
    image = write_oci_archive(archive, out / image_name(version), labels, commit.created)
    parts = packages(image.descriptions)
    (out / f"{NAME}-{version}-image.cdx.json").write_text(bill(NAME, version, image.digest, parts, commit.time))
    return image


def image_name(version: str) -> str:
    """Return the name of the image's archive."""
    return f"{NAME}-{version}-image.oci.tar"


def build_plugin(sources: Path, wheel: Path, out: Path, version: str, url: str, platforms: tuple[str, ...]) -> None:
    """Build the archives of kubectl's plug-in, and krew's manifest."""
    lock = sources / "requirements" / "cli.txt"
    archives = {platform: out / archive_name(version, platform) for platform in platforms or tuple(PLATFORMS)}
    for platform, archive in archives.items():
        write_tar_gz(archive, plugin_files(wheel, lock, platform))
    sums = {platform: digest(archive) for platform, archive in archives.items()}
    (out / f"{NAME}.krew.yaml").write_text(manifest(version, url, sums), encoding="utf-8")
