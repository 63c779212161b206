"""Which mounted trees are to be watched for opened files. Pure."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from stoker_api.dataset import MountMode
from stoker_sidecar.volumes.core.publish import Published

# Each is a fanotify group, of which the kernel grants a user 128 (fs.fanotify.max_user_groups).
MOST_WATCHES = 32


class TreeWatch(NamedTuple):
    """A tree to watch: a version, and whether pods see its folder or its overlay. ``folder``: of the version."""

    uid: str
    digest: str
    mode: MountMode
    folder: Path


def wanted_watches(records: Iterable[Published], off: Collection[str]) -> frozenset[TreeWatch]:
    """Return what is to be watched: what pods see without FUSE, unless its Dataset's UID is in ``off``.

    Of more than 32 trees, those of the lowest UIDs.
    """
    rows = {
        TreeWatch(row.uid, row.version, row.mode, row.folder)
        for row in records
        if row.mode is not MountMode.FUSE and row.uid not in off
    }
    return frozenset(sorted(rows)[:MOST_WATCHES])
