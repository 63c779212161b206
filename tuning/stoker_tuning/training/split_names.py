"""Splits by the names of folders and files, as in the usual layouts of datasets."""

import re
from enum import StrEnum

from stoker_tuning.vocabulary import Split


class SplitSource(StrEnum):
    """The source of a file's split; earlier members win."""

    RULE = "rule"
    NAME = "name"
    BEHAVIOUR = "behaviour"
    UNKNOWN = "unknown"


_WORDS = {
    "train": Split.TRAIN,
    "training": Split.TRAIN,
    "trainset": Split.TRAIN,
    "val": Split.VALIDATION,
    "valid": Split.VALIDATION,
    "validation": Split.VALIDATION,
    "valset": Split.VALIDATION,
    "dev": Split.VALIDATION,
    "test": Split.TEST,
    "testing": Split.TEST,
    "testset": Split.TEST,
    "eval": Split.TEST,
    "holdout": Split.TEST,
}
_PART = re.compile(r"[a-z]+")
_LONGEST = 4096  # characters of a path: no kernel takes more


def split_of_folder(folder: str) -> Split:
    """Return the split of a folder's path: of the first part with such a name, as in ``train2017/n01440764``."""
    for part in folder[:_LONGEST].lower().split("/"):
        words = _PART.findall(part)
        if len(words) == 1 and words[0] in _WORDS:
            return _WORDS[words[0]]
    return Split.UNKNOWN


def split_of_file(name: str) -> Split:
    """Return the split of a file name without folders, as in ``val-00001-of-00008.parquet``."""
    first = _PART.match(name[:_LONGEST].lower())
    return _WORDS.get(first.group(), Split.UNKNOWN) if first else Split.UNKNOWN
