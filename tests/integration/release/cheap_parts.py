"""Builds the parts of a release that need no image. Run as a program: python cheap_parts.py FOLDER."""

import sys
from pathlib import Path

from tools.release.sbom import bill, packages
from tools.release.sources import copy_sources
from tools.release.steps import build_plugin, build_wheels, package_chart
from tools.release.version import current

ROOT = Path(__file__).resolve().parents[3]
PLATFORM = "linux/amd64"
URL = "https://files.example"


def build(folder: Path) -> None:
    """Write wheels, chart, plug-in, krew's manifest and a bill of this environment's packages to ``folder``/out."""
    sources, out, version = folder / "sources", folder / "out", current(ROOT)
    out.mkdir(parents=True)
    copy_sources(ROOT, sources)
    stoker, _client = build_wheels(sources, out)
    package_chart(sources, out, version)
    build_plugin(sources, stoker, out, version, URL, (PLATFORM,))
    found = set(Path(sys.prefix).glob("lib/python*/site-packages/*.dist-info/METADATA"))  # their order differs by run
    described = {str(path): path.read_bytes() for path in found}
    (out / "bill.cdx.json").write_text(bill("stoker", version, "0" * 64, packages(described), 0))


if __name__ == "__main__":
    build(Path(sys.argv[1]))
