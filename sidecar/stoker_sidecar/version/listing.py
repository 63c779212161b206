"""The last listing of a dataset that this node made, as it lies on the cache disk.

Apart from the layout, which FUSE servers import: pydantic would cost each of them 6 MB.
"""

from stoker_api.nodecache import ListingResult
from stoker_sidecar.version.layout import DatasetPaths


def read_listing(paths: DatasetPaths) -> ListingResult | None:
    """Read the last listing that this node made; None when there is none or it cannot be read."""
    try:
        return ListingResult.model_validate_json(paths.listing.read_text())
    except (OSError, ValueError):
        return None
