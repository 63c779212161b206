"""The files of a support bundle: redacted, bounded in bytes, and in an archive that only its owner may read."""

import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stoker_cli.errors import CliError
from stoker_cli.output import printable
from stoker_cli.support.bundle.redaction import redact, redact_object
from stoker_cli.support.facts import ClusterFacts, Raw, key_of, right_for
from stoker_cli.support.findings import Finding, FindingLevel, lines, wire

MOST_BYTES = 64 * 2**20  # of all files together, before compression
MOST_OBJECTS = 8 * 2**20  # bytes of the objects of one read
MOST_LOG = 2**19  # bytes of one log
MOST_PODS = 100  # pods with logs
_TEXT = """\
A support bundle of Stoker, made by `stoker support-bundle`.

versions.json   versions of this program, the release and the API server
doctor.txt      findings of `stoker doctor`
doctor.json     the same as JSON
objects/        Stoker's objects, its pods, their events, and the nodes
logs/           ends of the logs of Stoker's pods, also from before a restart
left-out.json   what could not be read, or had no room

Secrets are never read. Keys, tokens, passwords and signed URLs in texts are masked, and commands and variables of
containers are removed. Names of Datasets, pods, nodes and buckets are kept: read the files before you send them.
"""


class BundleFiles:
    """Collects the files of a bundle up to ``most`` bytes. Files without room are counted as left out."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.files: Final[dict[str, bytes]] = {}
        self.left_out: Final[list[str]] = []
        self._room = most

    def add(self, path: str, content: bytes) -> None:
        """Add a file whose content is redacted, if there is room."""
        if len(content) > self._room:
            self.left_out.append(f"{path}: no room for {len(content)} bytes")
            return
        self._room -= len(content)
        self.files[path] = content

    def add_json(self, path: str, value: Any) -> None:
        """Redact a value, and add it as JSON."""
        self.add(path, _json(redact_object(value)))

    def add_log(self, path: str, log: bytes) -> None:
        """Redact a log, and add its end."""
        self.add(path, redact(log.decode("utf-8", "replace")).encode()[-MOST_LOG:])

    def add_objects(self, path: str, items: Sequence[Raw], first: frozenset[str] = frozenset()) -> None:
        """Redact objects, and add as many as fit, those with a key in ``first`` before the rest."""
        kept, room = list[str](), MOST_OBJECTS
        for item in sorted(items, key=lambda item: (key_of(item) not in first, key_of(item))):
            text = json.dumps(redact_object(item), ensure_ascii=False)
            if len(text.encode("utf-8", "replace")) > room:
                break
            kept.append(text)
            room -= len(text.encode("utf-8", "replace"))
        if len(kept) < len(items):
            self.left_out.append(f"{path}: {len(items) - len(kept)} of {len(items)} objects")
        self.add(path, ("[\n" + ",\n".join(kept) + "\n]\n").encode("utf-8", "replace"))


def add_facts(files: BundleFiles, facts: ClusterFacts, findings: Sequence[Finding]) -> None:
    """Add everything except logs."""
    files.add("README.txt", _TEXT.encode())
    files.add_json("versions.json", _versions(facts))
    files.add("doctor.txt", redact("\n".join(lines(findings, every=True)) + "\n").encode("utf-8", "replace"))
    files.add_json("doctor.json", wire(findings))
    bad = frozenset(each.subject for each in findings if each.level is not FindingLevel.OK)
    for path, items in _by_path(facts).items():
        files.add_objects(path, items, bad)


def add_left_out(files: BundleFiles, facts: ClusterFacts, more: Sequence[str] = ()) -> None:
    """Add what is missing from the bundle."""
    unread = [f"{right_for(read)}: {why}" for read, why in facts.unread.items()]
    files.add_json("left-out.json", {"unread": unread, "leftOut": [*files.left_out, *more]})


def _by_path(facts: ClusterFacts) -> Mapping[str, Sequence[Raw]]:
    """Return the objects of all reads by file. Reads of one kind share a file."""
    found: dict[str, dict[str, Raw]] = {}
    for read, items in facts.objects.items():
        found.setdefault(f"objects/{read.kind.plural}.json", {}).update((key_of(item), item) for item in items)
    return {path: list(items.values()) for path, items in found.items()}


def _versions(facts: ClusterFacts) -> dict[str, Any]:
    return {
        "cli": facts.cli_version,
        "release": facts.release_version,
        "kubernetes": facts.server_version,
        "namespace": facts.namespace,
    }


def logs_wanted(facts: ClusterFacts, findings: Sequence[Finding]) -> Iterator[tuple[Raw, str, bool]]:
    """Yield the pods, containers and runs whose logs are wanted: the operator, then nodes with findings, then the rest.

    The boolean is True for the run before a container's restart.
    """
    bad = {each.subject for each in findings if each.level is not FindingLevel.OK}
    pods = [*facts.pods("operator"), *sorted(facts.pods("sidecar"), key=lambda pod: _node(pod) not in bad)]
    for pod in pods[:MOST_PODS]:
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        restarted = {each.get("name") for each in statuses if each.get("restartCount")}
        for container in (pod.get("spec") or {}).get("containers") or ():
            yield pod, str(container.get("name")), False
            if container.get("name") in restarted:
                yield pod, str(container.get("name")), True


def _node(pod: Raw) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")


_MODE = 0o600


def write_archive(path: Path, folder: str, files: Mapping[str, bytes], at: float) -> int:
    """Write ``files`` below ``folder`` into a new archive. Return its size in bytes. Raises CliError.

    ``at``: time of the files, in seconds since the epoch.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError as error:
        raise CliError(f"{printable(str(path))} exists: name another file with -o") from error
    except (OSError, ValueError) as error:
        raise _failed(path, error) from error
    try:
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, content in files.items():
                archive.addfile(_member(f"{folder}/{name}", len(content), at), io.BytesIO(content))
        return path.stat().st_size
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _failed(path, error) from error


def _member(name: str, size: int, at: float) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, int(at), _MODE
    return member


def _failed(path: Path, error: Exception) -> CliError:
    return CliError(f"Cannot write {printable(str(path))}: {getattr(error, 'strerror', None) or error}")
