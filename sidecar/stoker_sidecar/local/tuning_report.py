"""What a mount says of the rules that are in force: read by its command, which does without all that rules need."""

from collections.abc import Mapping

from pydantic import Field

from stoker_api.meta import Model


class TuningReport(Model):
    """What is in force for a mount: whose rules, and by the id of each to how many files it applies, and acts on.

    ``not_turned``: knobs that the profile's own rules set and that nothing turns. ``numbers``: those in force in
    place of what rules say, found or on trial. ``tuned``: what came of the last change of one.
    ``trouble``: why the file as it is now is not in force, or what is treated as without rules; sentences.
    """

    off: bool = False
    profile: str = ""
    generation: int = 0
    matched: Mapping[str, int] = Field(default_factory=dict)
    acted: Mapping[str, int] = Field(default_factory=dict)
    groups: int = 0
    numbers: Mapping[str, float] = Field(default_factory=dict)
    tuned: str = ""
    not_turned: tuple[str, ...] = ()
    trouble: str = ""
