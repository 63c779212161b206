"""Hints from a pod's spec, as values that are always valid. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class FrameworkSource(StrEnum):
    """The source of a workload's framework, the surest first."""

    REPORT = "report"  # the pod's report
    LIBRARIES = "libraries"  # shared libraries loaded by its processes
    COMMAND = "command"  # a launcher on its command line
    ENVIRONMENT = "environment"  # variables that only one framework reads
    IMAGE = "image"  # the name of its image
    FILES = "files"  # files that it reads, as judged by a framework plug-in


HINTED_SOURCES = (FrameworkSource.COMMAND, FrameworkSource.ENVIRONMENT, FrameworkSource.IMAGE)
MOST_BATCH = 999_999_999
MOST_GPUS = 1024  # of one pod
MOST_JOB = 253  # characters of a name


@dataclass(frozen=True, slots=True)
class PodHints:
    """Hints about training in a pod's manifest. Empty, None and 0: no hint.

    ``framework`` is its name in ``workload_context``, and ``framework_source`` one of ``HINTED_SOURCES``; both are set,
    or neither. ``batch_size`` in items; ``gpus``: of all its containers; ``job``: the owner of the pod.
    """

    framework: str = ""
    framework_source: FrameworkSource | None = None
    batch_size: int = 0
    gpus: int = 0
    job: str = ""


NO_HINTS = PodHints()
