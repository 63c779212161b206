"""The version of a release. pyproject.toml has it, and other files repeat it."""

import re
from collections.abc import Iterator
from pathlib import Path

from tools.release.errors import ReleaseError

SOURCE = "pyproject.toml"
CHANGELOG = "CHANGELOG.md"
_IN_COMMANDS = r"(?:REGISTRY/stoker:|--version )(\d+\.\d+\.\d+)"
# Each pattern's group is the version. All matches of a file count.
PLACES = (
    (SOURCE, r'^version = "(.+)"$'),
    ("client/pyproject.toml", r'^version = "(.+)"$'),
    ("charts/stoker/Chart.yaml", r"^(?:version|appVersion): (\S+)$"),
    ("Dockerfile", r"^ARG VERSION=(\S+)$"),
    ("tools/release/docker-bake.hcl", r'^  default = "(\d.*)"$'),
    ("README.md", _IN_COMMANDS),
    ("docs/getting-started/tutorial.md", r"example.com/stoker:(\d+\.\d+\.\d+)"),
)
_TITLE = r"^## \[(.+?)\]"
_RELEASE = re.compile(r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)")


def current(root: Path) -> str:
    """Return the version in pyproject.toml. Raises ReleaseError if another file has a different one."""
    (_, version), *others = _versions(root)
    if wrong := [f"{file} has {other}" for file, other in others if other != version]:
        raise ReleaseError(
            f"{SOURCE} has version {version}, but {', '.join(wrong)}. "
            f"Run `python -m tools.release version {version}`, and add its section to {CHANGELOG}."
        )
    return version


def write(root: Path, version: str) -> None:
    """Write a new version to all files except the changelog. Raises ReleaseError if it is not like 1.2.3."""
    if not _RELEASE.fullmatch(version):
        raise ReleaseError(f"{version!r} is not a version: write three numbers, such as 1.2.3.")

    def replaced(match: re.Match[str]) -> str:
        return match[0].replace(match[1], version)

    for file, pattern in PLACES:
        text = (root / file).read_text(encoding="utf-8")
        (root / file).write_text(re.sub(pattern, replaced, text, flags=re.MULTILINE), encoding="utf-8")


def _versions(root: Path) -> Iterator[tuple[str, str]]:
    for file, pattern in PLACES:
        text = (root / file).read_text(encoding="utf-8")
        yield from ((file, version) for version in re.findall(pattern, text, re.MULTILINE) or ["none"])
    title = re.search(_TITLE, (root / CHANGELOG).read_text(encoding="utf-8"), re.MULTILINE)
    yield CHANGELOG, title[1] if title else "none"
