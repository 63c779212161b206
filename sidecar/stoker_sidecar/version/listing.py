"""A dataset's last listing by this node, on the cache disk.

It is separate from the layout, which FUSE servers import: pydantic would cost each of them 6 MB.
"""

from stoker_api.node_caches.node_dataset_status import ListingResult
from stoker_sidecar.version.layout import DatasetPaths


def read_listing(paths: DatasetPaths) -> ListingResult | None:
    """Read the last listing by this node; None if it is missing or unreadable."""
    try:
        return ListingResult.model_validate_json(paths.listing.read_text())
    except (OSError, ValueError):
        return None
