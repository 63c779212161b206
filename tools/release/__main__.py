"""Build every file of a release into dist/VERSION, or set the version."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from e2e.cluster.errors import HarnessError
from tools.release import version
from tools.release.checksums import sign, write_sums
from tools.release.errors import ReleaseError
from tools.release.image import OciImage
from tools.release.plugin import PLATFORMS
from tools.release.sources import commit_of, copy_sources
from tools.release.steps import build_image, build_plugin, build_wheels, package_chart

ROOT = Path(__file__).resolve().parents[2]
MEBIBYTE = 1 << 20


def build(options: argparse.Namespace) -> None:
    """Build all files into a draft folder, which then replaces dist/VERSION."""
    release, commit = version.current(ROOT), commit_of(ROOT, options.allow_dirty)
    if options.key and not options.key.is_file():
        raise ReleaseError(f"--key {options.key} is not a file. Make one with ssh-keygen -t ed25519.")
    target = options.out.resolve() / release
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as copy, tempfile.TemporaryDirectory(dir=options.out) as folder:
        sources, out = Path(copy), Path(folder) / release
        out.mkdir()
        copy_sources(ROOT, sources)
        stoker, _client = build_wheels(sources, out)
        package_chart(sources, out, release)
        build_plugin(sources, stoker, out, release, options.url, tuple(options.platform))
        image = build_image(sources, out, release, commit)
        sums = write_sums(out)
        if options.key:
            sign(sums, options.key)
        shutil.rmtree(target, ignore_errors=True)
        out.rename(target)
    _report(target, image, options)


def _report(target: Path, image: OciImage, options: argparse.Namespace) -> None:
    for path in sorted(target.iterdir()):
        print(f"{path.stat().st_size / MEBIBYTE:8.1f} MiB  {path.name}")
    print(f"image: {image.platform}, sha256:{image.digest}")
    print(f"image: {image.size / MEBIBYTE:.0f} MiB to fetch, {image.unpacked / MEBIBYTE:.0f} MiB unpacked")
    print("image: other platforms are not built here; Docker builds them: tools/release/docker-bake.hcl")
    print("signed: SHA256SUMS.sig" if options.key else "NOT SIGNED: give a private SSH key with --key")
    print(f"release: {target}")


def set_version(options: argparse.Namespace) -> None:
    version.write(ROOT, options.version)
    print(f"wrote {options.version}; add its section to {version.CHANGELOG}, and commit")


def parser() -> argparse.ArgumentParser:
    """Return the parser. Each command stores its function in `run`."""
    top = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="CMD")
    option = commands.add_parser("build", help="build every file of a release")
    option.set_defaults(run=build)
    option.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for VERSION/ (default: dist)")
    option.add_argument("--key", type=Path, help="private SSH key that signs SHA256SUMS")
    option.add_argument("--url", default="https://DOWNLOADS", help="address of the files, for krew's manifest")
    option.add_argument("--allow-dirty", action="store_true", help="release files that are not committed")
    option.add_argument(
        "--platform", action="append", default=[], choices=PLATFORMS, help="of kubectl's plug-in (default: all)"
    )
    option = commands.add_parser("version", help="write a new version to all files that have it")
    option.set_defaults(run=set_version)
    option.add_argument("version", metavar="X.Y.Z")
    return top


def main() -> int:
    options = parser().parse_args()
    try:
        options.run(options)
    except (HarnessError, ReleaseError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
