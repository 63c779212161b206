"""What one mount should be, as the command line said it: handed as a file from the command to the agent. Pure."""

from pathlib import Path

from stoker_api.dataset import Source
from stoker_api.meta import Model, ObjectMeta
from stoker_api.nodecache import NodeCache, NodeCacheSpec, NodeDataset

# The only dataset of a mount, whose folder is named after the source already.
UID = "source"
NAMESPACE = "mount"


class MountSpec(Model):
    """What one mount should be: of which source, where, and how much of it is fetched and kept.

    ``folder``: where to mount, absolute. ``home``: folder of what stays on the disk.
    ``listing_id``: list the source anew under this name, unless that was done; empty: mount ``version``, which is here.
    """

    source: Source
    folder: Path
    home: Path
    listing_id: str = ""
    version: str = ""
    eager: bool = False
    quota_bytes: int | None = None
    bytes_per_second: int | None = None
    allow_other: bool = False

    def plan(self, version: str) -> NodeCache:
        """Return what an operator would ask of this node.

        ``version``: empty until listed; then nothing is fetched yet.
        """
        dataset = NodeDataset(
            namespace=NAMESPACE,
            name=self.source.uri,
            uid=UID,
            source=self.source,
            listing_id=self.listing_id,
            version=version,
            eager=self.eager,
            bytes_per_second=self.bytes_per_second,
            quota_bytes=self.quota_bytes,
        )
        return NodeCache(metadata=ObjectMeta(name="here", generation=1), spec=NodeCacheSpec(datasets=(dataset,)))
