"""Splits by the names of folders and files, as datasets are mostly laid out."""

import re
from enum import StrEnum

from stoker_tuning.vocabulary import Split


class SplitSource(StrEnum):
    """Who says to which split a file belongs; what is higher wins."""

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
_LONGEST = 4096  # characters of a path: more no kernel takes


def split_of_folder(folder: str) -> Split:
    """Tell the split from a folder's path: the first part that is named like one, as in ``train2017/n01440764``."""
    for part in folder[:_LONGEST].lower().split("/"):
        words = _PART.findall(part)
        if len(words) == 1 and words[0] in _WORDS:
            return _WORDS[words[0]]
    return Split.UNKNOWN


def split_of_file(name: str) -> Split:
    """Tell the split from the name of a file without its folders, as in ``val-00001-of-00008.parquet``."""
    first = _PART.match(name[:_LONGEST].lower())
    return _WORDS.get(first.group(), Split.UNKNOWN) if first else Split.UNKNOWN
