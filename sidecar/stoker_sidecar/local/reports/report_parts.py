"""The parts of a mount's report about rules and order. Its command reads them without importing rules or orders."""

from collections.abc import Mapping

from pydantic import Field

from stoker_api.meta import Model


class TuningReport(Model):
    """The rules in force for a mount: their profile, and the number of files that each rule id matches and acts on.

    ``tuned``: the outcome of the last tested rule. ``framework``: of the files, as plug-ins say.
    ``trouble``: why the file as it is now is not in force, or what is treated as without rules; sentences.
    """

    off: bool = False
    profile: str = ""
    generation: int = 0
    matched: Mapping[str, int] = Field(default_factory=dict)
    acted: Mapping[str, int] = Field(default_factory=dict)
    groups: int = 0
    tuned: str = ""
    framework: str = ""
    trouble: str = ""


class OrderReport(Model):
    """The state of the order. ``state`` is Known, Wrong or Unknown; empty: the mount has no order.

    ``source`` is the order's source, Spec (--sampling) or Report (a reader). ``agreement`` is a percentage of the last
    500 reads; None: too few reads. ``message`` is a sentence.
    """

    state: str = ""
    agreement: int | None = None
    message: str = ""
    source: str = ""
