"""Samplers whose order a node can know, and reports of what training does; plain Python where Stoker is not."""

from stoker_client.group_shuffle import GroupShuffleSampler
from stoker_client.index_sequence import IndexSequence, batches
from stoker_client.shuffles import GlobalShuffleSampler, QualityRatioSampler, WarmFirstSampler
from stoker_client.training_report import TrainingReport

__all__ = [
    "GlobalShuffleSampler",
    "GroupShuffleSampler",
    "IndexSequence",
    "QualityRatioSampler",
    "TrainingReport",
    "WarmFirstSampler",
    "batches",
]
