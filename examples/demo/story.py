"""What is told at the end: each pod, when it was held and released, where it went, how warm that was, what it read.

Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker_api.meta import format_bytes


@dataclass(frozen=True)
class PodStory:
    """One training pod: what `stoker why -o json` says of it, and the last line that it printed."""

    why: Mapping[str, Any]
    report: Mapping[str, Any]


def report_of(log: str) -> Mapping[str, Any]:
    """Parse the JSON line that the training script prints last. Raises ValueError when there is none."""
    for line in reversed(log.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    raise ValueError("the training pod printed no report")


def lines(stories: Sequence[PodStory]) -> list[str]:
    """Return the closing words of the demo."""
    out: list[str] = []
    for story in stories:
        out += [f"pod {story.why['pod']}", *(f"  {line}" for line in story.why["explanation"])]
        out.append(f"  {reading(story.report)}")
        out.append(f"  It trained as worker {story.report['rank'] + 1} of {story.report['world']}; "
                   f"accuracy on held-back digits: {story.report['accuracy']:.1%}.")  # fmt: skip
    return out


def reading(report: Mapping[str, Any]) -> str:
    """Read speed of the first pass over the files, in a sentence."""
    seconds = max(report["readSeconds"], 0.001)  # the clock's own grain
    files, size = report["files"], report["bytes"]
    return (
        f"It read {files:,} files ({format_bytes(size)}) in {report['readSeconds']} s: "
        f"{files / seconds:,.0f} files/s, {format_bytes(size / seconds)}/s."
    )
