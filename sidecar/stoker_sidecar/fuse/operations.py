"""The kernel's FUSE requests as calls of the file system: convert, call, map the error, count.

It makes no decisions.
"""

import errno
import json
import logging
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyfuse3

from stoker_sidecar.errors import FsError
from stoker_sidecar.fuse.access_log import AccessLog
from stoker_sidecar.fuse.dataset_fs import NAME_MAX, DatasetFs
from stoker_sidecar.version.manifest import ROOT_INO, Entry

_log = logging.getLogger("stoker.fs")
# A version never changes, so the kernel may cache names, absences and attributes for a year.
_FOREVER = 365 * 86400.0
_BLOCK = 4096
_SECTOR = 512  # the unit of st_blocks
# Expected errors that are not logged: programs ask such questions in normal use.
_QUIET = (errno.ENODATA, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG)
# An unlisted read-only attribute of the root: requests to this server, as JSON {operation: count}.
XATTR_REQUESTS = b"user.stoker.requests"


def attributes(entry: Entry) -> pyfuse3.EntryAttributes:
    """Convert an entry for the kernel: modes 0755 and 0444, owned by root, all times the object's."""
    out = pyfuse3.EntryAttributes()
    out.st_ino = pyfuse3.InodeT(entry.ino)
    out.generation = 0
    out.entry_timeout = out.attr_timeout = _FOREVER
    out.st_mode = pyfuse3.ModeT(stat.S_IFDIR | 0o755 if entry.is_dir else stat.S_IFREG | 0o444)
    out.st_nlink = 1  # for a folder: number of subfolders unknown, as find(1) understands
    out.st_uid = out.st_gid = out.st_rdev = 0
    out.st_size = entry.size
    out.st_blksize = _BLOCK
    out.st_blocks = -(-entry.size // _SECTOR)
    out.st_atime_ns = out.st_mtime_ns = out.st_ctime_ns = entry.mtime_ns
    return out


def _absent() -> pyfuse3.EntryAttributes:
    """Return the answer that lets the kernel cache a missing name."""
    out = pyfuse3.EntryAttributes()
    out.st_ino = pyfuse3.InodeT(0)
    out.entry_timeout = _FOREVER
    return out


class FuseOperations(pyfuse3.Operations):
    """The operations that pyfuse3 calls for each kernel request, on one DatasetFs.

    ``on_init`` runs in libfuse's INIT, when its side of the connection is ready. ``accesses`` counts opens and reads.
    An FsError reaches the reader as its errno. Any other error is a bug and becomes EIO.
    """

    supports_dot_lookup = False
    enable_writeback_cache = False

    def __init__(self, fs: DatasetFs, on_init: Callable[[], None], accesses: AccessLog) -> None:
        super().__init__()
        self._fs = fs
        self._accesses = accesses
        self._on_init = on_init
        self._requests: Counter[str] = Counter()

    def init(self) -> None:
        """Take over the connection. libfuse calls this once."""
        self._on_init()

    @contextmanager
    def _answering(self, operation: str) -> Iterator[None]:
        self._requests[operation] += 1
        try:
            yield
        except FsError as error:
            if error.errno not in _QUIET:
                _log.warning("%s: the reader gets %s", error, errno.errorcode.get(error.errno, error.errno))
            raise pyfuse3.FUSEError(error.errno) from error
        except Exception as error:  # unanswered, it would kill every later server too
            _log.exception("%s: a bug, or a manifest that is damaged: the reader gets EIO", operation)
            raise pyfuse3.FUSEError(errno.EIO) from error

    async def lookup(
        self, parent_inode: pyfuse3.InodeT, name: pyfuse3.FileNameT, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """Look up a name in a folder."""
        with self._answering("lookup"):
            entry = self._fs.lookup(parent_inode, name)
            return attributes(entry) if entry is not None else _absent()

    async def forget(self, inode_list: Sequence[tuple[pyfuse3.InodeT, int]]) -> None:
        """Do nothing: there is no state per inode."""

    async def getattr(self, inode: pyfuse3.InodeT, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        """Return the attributes of an inode."""
        with self._answering("getattr"):
            return attributes(self._fs.getattr(inode))

    async def opendir(self, inode: pyfuse3.InodeT, ctx: pyfuse3.RequestContext) -> pyfuse3.FileHandleT:
        """Open a folder. The handle is the inode, which is the same in the next server."""
        with self._answering("opendir"):
            return pyfuse3.FileHandleT(self._fs.opendir(inode))

    async def readdir(self, fh: pyfuse3.FileHandleT, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        """Return entries with their attributes until the kernel's buffer is full."""
        with self._answering("readdir"):
            for entry in self._fs.readdir(fh, start_id):
                if not pyfuse3.readdir_reply(token, pyfuse3.FileNameT(entry.name), attributes(entry), entry.ino):
                    return

    async def releasedir(self, fh: pyfuse3.FileHandleT) -> None:
        """Do nothing: there is no state per handle."""

    async def open(self, inode: pyfuse3.InodeT, flags: pyfuse3.FlagT, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        """Open a file. The handle is the inode. The page cache survives between opens."""
        with self._answering("open"):
            handle = pyfuse3.FileHandleT(self._fs.open(inode, flags))
            self._accesses.opened(inode, ctx.pid)
            return pyfuse3.FileInfo(fh=handle, keep_cache=True)

    async def read(self, fh: pyfuse3.FileHandleT, off: int, size: int) -> bytes:
        """Read bytes of a file."""
        with self._answering("read"):
            counted = self._accesses.begin_read(fh, off, size)
            try:
                return await self._fs.read(fh, off, size)
            finally:
                if counted:
                    self._accesses.end_read()

    async def release(self, fh: pyfuse3.FileHandleT) -> None:
        """Do nothing: there is no state per handle."""

    async def flush(self, fh: pyfuse3.FileHandleT) -> None:
        """Answer ENOSYS, so that the kernel never asks again."""
        raise pyfuse3.FUSEError(errno.ENOSYS)

    async def statfs(self, ctx: pyfuse3.RequestContext) -> pyfuse3.StatvfsData:
        """Return the size of the version, without free space."""
        with self._answering("statfs"):
            totals = self._fs.totals()
            out = pyfuse3.StatvfsData()
            out.f_bsize = out.f_frsize = _BLOCK
            out.f_blocks = -(-totals.size // _BLOCK)
            out.f_files = totals.files
            out.f_bfree = out.f_bavail = out.f_ffree = out.f_favail = 0
            out.f_namemax = NAME_MAX
            return out

    async def getxattr(self, inode: pyfuse3.InodeT, name: pyfuse3.XAttrNameT, ctx: pyfuse3.RequestContext) -> bytes:
        """Return a file's source; on the root, the request counts of this server."""
        if inode == ROOT_INO and name == XATTR_REQUESTS:
            return json.dumps(self._requests).encode()
        with self._answering("getxattr"):
            return self._fs.getxattr(inode, name)

    async def listxattr(self, inode: pyfuse3.InodeT, ctx: pyfuse3.RequestContext) -> Sequence[pyfuse3.XAttrNameT]:
        """Return the names of an inode's extended attributes."""
        with self._answering("listxattr"):
            return [pyfuse3.XAttrNameT(name) for name in self._fs.listxattr(inode)]
