"""What a pod's spec hints at, as values that cannot be wrong later. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class FrameworkSource(StrEnum):
    """By what the framework of a workload is known, the surest first."""

    REPORT = "report"  # the pod's own word
    LIBRARIES = "libraries"  # shared libraries that its processes have loaded
    COMMAND = "command"  # a launcher on its command line
    ENVIRONMENT = "environment"  # variables that only one framework reads
    IMAGE = "image"  # the name of its image
    FILES = "files"  # files that it reads, as a framework plug-in judges them


HINTED_SOURCES = (FrameworkSource.COMMAND, FrameworkSource.ENVIRONMENT, FrameworkSource.IMAGE)
MOST_BATCH = 999_999_999
MOST_GPUS = 1024  # of one pod
MOST_JOB = 253  # characters of a name


@dataclass(frozen=True, slots=True)
class PodHints:
    """What a pod's author wrote that tells of its training. Empty, None and 0: it is not told.

    ``framework`` is as ``workload_context`` names it, and ``framework_source`` one of ``HINTED_SOURCES``; neither is
    there without the other. ``batch_size`` in items; ``gpus``: of all its containers; ``job``: what made the pod.
    """

    framework: str = ""
    framework_source: FrameworkSource | None = None
    batch_size: int = 0
    gpus: int = 0
    job: str = ""


NO_HINTS = PodHints()
