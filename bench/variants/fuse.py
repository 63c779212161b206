"""A FUSE mount whose files lose their cached pages at every open.

`python -m bench.variants.fuse MOUNTPOINT`, then options.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyfuse3

from bench.measure import wait_until
from bench.node import Node, Volume, mode
from stoker_api.dataset import MountMode
from stoker_sidecar.fuse import main as product
from stoker_sidecar.fuse.operations import FuseOperations
from stoker_sidecar.linux.fuse_device import open_mount
from stoker_sidecar.linux.mount_calls import detach

_START_SECONDS = 30.0


class WithoutKeepCache(FuseOperations):
    """The product's answers, but each open makes the kernel forget the file's pages."""

    async def open(self, inode: pyfuse3.InodeT, flags: pyfuse3.FlagT, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        """Open as the product does, without keep_cache."""
        info = await super().open(inode, flags, ctx)
        info.keep_cache = False
        return info


@contextmanager
def mounted(node: Node, volume: Volume, mountpoint: Path) -> Iterator[Path]:
    """Mount a version of the node in this way while inside, beside the node's own mounts. Raises NotReadyError."""
    words = {"manifest": volume.paths.manifest, "version-dir": volume.paths.folder, "uid": volume.uid}
    words |= {"digest": volume.digest, "fetcher-socket": node.sidecar.fetcher_socket}
    options = [f"--{name}={word}" for name, word in words.items()]
    server = subprocess.Popen([sys.executable, "-m", "bench.variants.fuse", str(mountpoint), *options])
    try:
        wait_until(
            "a FUSE mount without keep_cache",
            lambda: mode(mountpoint) is MountMode.FUSE,
            _START_SECONDS,
            alive=lambda: server.poll() is None,
        )
        yield mountpoint
    finally:
        server.kill()  # its mount answers no one from then on
        server.wait()
        if mode(mountpoint) is not None:
            detach(str(mountpoint))


def main(argv: Sequence[str]) -> int:
    """Mount and answer until the mount is gone; return the exit code. Raises MountError."""
    mountpoint, *options = argv
    mount = open_mount(Path(mountpoint))
    return product.main([f"--fd={mount.fd}", *options], WithoutKeepCache)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
