"""What of a Dataset's spec selects bytes, as a fingerprint: a listing counts for as long as that stays the same."""

import hashlib
import json
from collections.abc import Sequence

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.dataset_source import Source

# The form of fingerprints. A release that makes them otherwise takes another one, and goes on knowing this one.
_FORM = "2."
_HASH_LENGTH = 12  # hexadecimal digits: enough to tell two specs of one Dataset apart
# What a Source had when fingerprints were made of all of it. Fields that came later are not in those.
_FIRST_FIELDS = frozenset({"uri", "endpoint", "region", "addressingStyle", "credentials", "include", "exclude"})


def fingerprint(dataset: Dataset) -> str:
    """Hash what selects bytes: folder, endpoint, patterns, the region where that has an endpoint of its own.

    And `stoker refresh`, whose annotation counts as text, not as a time: the clock that wrote it is a laptop's.
    Credentials and the form of URLs decide whether a listing succeeds, not what it finds.
    """
    source = dataset.spec.source
    selecting = {
        "uri": source.uri.removesuffix("/"),
        "endpoint": (source.endpoint or "").removesuffix("/"),
        "region": "" if source.endpoint else source.region,
        "include": sorted(set(source.include)),
        "exclude": sorted(set(source.exclude)),
    }
    return _FORM + _hash([selecting, _refresh(dataset)])


def is_fingerprint(text: str) -> bool:
    """Tell whether a text has the form that ``fingerprint`` writes."""
    return text.startswith(_FORM)


def first_fingerprint(dataset: Dataset) -> str:
    """Hash the source as the first releases did, with all its fields of that time."""
    return _hash([_first_fields(dataset.spec.source), _refresh(dataset)])


def _first_fields(source: Source) -> dict[str, object]:
    return {field: value for field, value in source.wire().items() if field in _FIRST_FIELDS}


def _refresh(dataset: Dataset) -> str:
    return dataset.metadata.annotations.get(names.ANNOTATION_REFRESH_REQUESTED, "")


def _hash(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]
