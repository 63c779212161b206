"""Parses a Dockerfile for a local build: its bases, its copied files, and the places to insert settings."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from string import Template
from types import MappingProxyType

FROM_LINE = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE | re.MULTILINE)
DEBIAN_BASE = re.compile(r"(?:docker\.io/)?(?:library/)?debian:([a-z]+)(-slim)?")


@dataclass(frozen=True)
class Base:
    """A Debian base image: its full name, its suite, and whether documentation is left out."""

    image: str
    suite: str
    slim: bool


def logical_lines(text: str) -> list[str]:
    """Return the instructions of a Dockerfile. Continued lines are joined, comments are dropped."""
    kept = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [line for line in re.sub(r"\\\n\s*", " ", "\n".join(kept)).splitlines() if line.strip()]


def bases(
    text: str, arguments: Mapping[str, str] = MappingProxyType({}), built: Collection[str] = frozenset()
) -> list[Base]:
    """Return the Debian bases of a Dockerfile. ``arguments`` are build arguments, ``built`` are locally built images.

    Raises ValueError if a stage's base is not a Debian image, a locally built one, an earlier stage or scratch, because
    there is no registry to pull from.
    """
    stages: set[str] = {"scratch", *built}
    found: dict[str, Base] = {}
    for named, stage in FROM_LINE.findall("\n".join(logical_lines(text))):
        image = Template(named).safe_substitute(arguments)
        if image not in stages:
            match = DEBIAN_BASE.fullmatch(image)
            if match is None:
                raise ValueError(
                    f"FROM {image}: without a registry, only debian:SUITE and debian:SUITE-slim can be built"
                )
            found[image] = Base(image, match[1], bool(match[2]))
        stages.add(stage)
    return list(found.values())


def copied_paths(text: str) -> list[str]:
    """Return the sources that COPY and ADD take from the context, verbatim and in order."""
    found: list[str] = []
    for line in logical_lines(text):
        words = line.split()
        if words[0].upper() in ("COPY", "ADD") and not any(word.startswith("--from=") for word in words):
            found += [word for word in words[1:-1] if not word.startswith("--")]
    return found


def with_arguments(text: str, names: Iterable[str]) -> str:
    """Return the Dockerfile with `ARG NAME` after each FROM, so that RUN sees settings that no image keeps."""
    lines = "".join(f"\nARG {name}" for name in sorted(names))
    return FROM_LINE.sub(lambda match: match[0].rstrip() + lines, text)
