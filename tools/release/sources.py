"""The commit of a release, and a clean copy of its files."""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from e2e.cluster.processes import run
from tools.release.archives import FILE, PROGRAM
from tools.release.errors import ReleaseError


@dataclass(frozen=True)
class Commit:
    """A commit, and its time in seconds since 1970."""

    name: str
    time: int

    @property
    def created(self) -> str:
        """The time as in RFC 3339."""
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def commit_of(root: Path, allow_dirty: bool) -> Commit:
    """Return the commit of the work tree. Raises ReleaseError if files differ from it, unless that is allowed."""
    changed = run("git", "-C", root, "status", "--porcelain").splitlines()
    if changed and not allow_dirty:
        raise ReleaseError(
            f"{len(changed)} files are not committed, such as {changed[0][3:]}. Commit, or use --allow-dirty."
        )
    name, time = run("git", "-C", root, "log", "-1", "--format=%H %ct").split()
    return Commit(f"{name}-dirty" if changed else name, int(time))


def copy_sources(root: Path, target: Path) -> None:
    """Copy the files that git does not ignore, so that nothing else of the work tree gets into a release."""
    names = run("git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (root / name).is_file():
            _copy(root / name, target / name)


def _copy(source: Path, target: Path) -> None:
    """Copy a file with the modes that git knows, whatever the umask of the work tree was."""
    for folder in reversed(target.parents):
        if not folder.exists():
            folder.mkdir()
            folder.chmod(PROGRAM)
    shutil.copyfile(source, target)
    target.chmod(PROGRAM if source.stat().st_mode & 0o100 else FILE)
