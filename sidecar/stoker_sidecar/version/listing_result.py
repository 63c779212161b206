"""What the last listing of a dataset found, as this node keeps it beside the dataset's versions."""

from stoker_api.nodecache import ListingResult
from stoker_sidecar.version.layout import DatasetPaths


def read_listing(paths: DatasetPaths) -> ListingResult | None:
    """The last listing that this node made; None when there is none or it cannot be read."""
    try:
        return ListingResult.model_validate_json(paths.listing.read_text())
    except (OSError, ValueError):
        return None
