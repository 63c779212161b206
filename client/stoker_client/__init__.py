"""Samplers with an order that nodes can predict, and training reports. Without Stoker they work as plain Python."""

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
