"""The measured effects of rules that `stoker tuning explain` shows."""

from typing import Any

from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.tuning.effects import RuleEffects, effects_in_history, effects_on_node
from tests.support.cases import cases


def on_node(tuned: str, gain: int | None = None, *figures: dict[str, Any], profile: str = "fast") -> RuleEffects:
    row = {"pod": "vision/a", "tuned": tuned, "gainPercent": gain}
    cache = NodeCache.model_validate({"metadata": {"name": "n"}, "status": {"workloads": [row], "tuning": figures}})
    return effects_on_node(cache, cache.status.workloads[0], profile)


LAST = "prefetch_depth unset to 512: {} (deep)"
HELPED = {"profile": "fast", "rule": "deep", "matched": 9, "acted": 9, "helped": 2}


@cases(
    "tuned, gain, figures, shown",
    ("", None, (), "not measured yet"),
    (LAST.format("helped"), 18, (), "helped, +18 % items/s"),
    (LAST.format("helped"), 18, (HELPED,), "helped, +18 % items/s, 2 Datasets of this node"),
    (LAST.format("neutral"), 1, (), "no effect, +1 % items/s"),
    (LAST.format("hurt, taken back"), -50, (), "hurt, -50 % items/s"),
    ("", None, (HELPED,), "helped, 2 Datasets of this node"),
    ("", None, (HELPED | {"helped": 1},), "helped, 1 Dataset of this node"),
    ("", None, (HELPED | {"helped": 0},), "not measured yet"),
    ("", None, (HELPED | {"helped": -3},), "not measured yet"),
    ("", None, (HELPED | {"profile": "other"},), "not measured yet"),
    (LAST.format("splendid"), 18, (), "not measured yet"),
    (LAST.format("helped") + " and more", 18, (), "not measured yet"),
    ("prefetch_depth unset to 512: helped (dee", 18, (), "not measured yet"),
)
def test_an_effect_on_a_node(tuned: str, gain: int | None, figures: tuple[dict[str, Any], ...], shown: str) -> None:
    assert on_node(tuned, gain, *figures).words("deep") == shown


def trial(verdict: str = "helped", gain: Any = 0.18, rule: str = "deep") -> dict[str, Any]:
    return {"kind": "change", "verdict": verdict, "gain": gain, "change": {"origin": rule}}


@cases(
    "history, shown",
    ([], "not measured yet"),
    ([trial()], "helped, +18 % items/s, helped in 1 of 1 trial"),
    ([trial("neutral", 0.0), trial(), trial()], "no effect, +18 % items/s, helped in 2 of 3 trials"),
    ([trial("hurt", -0.5)], "hurt, -50 % items/s, helped in 0 of 1 trial"),
    ([trial(gain=1e300)], "helped, +1000 % items/s, helped in 1 of 1 trial"),
    ([trial(rule="other")], "not measured yet"),
    ([trial(gain=float("nan")), trial(gain="much"), trial("splendid"), {}, {"change": 1}], "not measured yet"),
)
def test_an_effect_in_the_history_of_a_mount(history: list[dict[str, Any]], shown: str) -> None:
    assert effects_in_history(history).words("deep") == shown


def test_an_unmeasured_effect_is_null_in_json() -> None:
    effects = effects_in_history([trial()])
    assert effects.wire("other") is None
    assert effects.wire("deep") == {"verdict": "helped", "gainPercent": 18, "helped": 1, "trials": 1}
