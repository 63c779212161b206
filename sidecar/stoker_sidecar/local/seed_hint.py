"""What could be said of a mount's order, by the seeds in the environment of who mounts: suggested, never assumed."""

import json
from collections.abc import Mapping

from stoker_orders.suggestion import seeds_of, suggested_sampling


def seed_hint(environment: Mapping[str, str]) -> str:
    """Return a sentence with what could be written; empty: no variable has a seed. Pure."""
    seeds = seeds_of((), environment)
    if not seeds:
        return ""
    said = json.dumps(suggested_sampling((), seeds[0].value))
    return (
        f"{seeds[0].place} is {seeds[0].value}: if that seeds the sampler of what reads this mount, what it reads next "
        "can be ready before. Nothing of it is assumed; look at sampler and files (docs/ORDERS.md), and mount with "
        f"--sampling '{said}'"
    )
