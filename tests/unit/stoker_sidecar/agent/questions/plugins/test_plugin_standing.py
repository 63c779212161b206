"""How answers change the standing of a plug-in and the types of files."""

import json
from typing import Any

from stoker_plugins.framework_question import FrameworkQuestion
from stoker_sidecar.agent.questions.plugins.plugin_standing import (
    AGAIN_SECONDS,
    PluginStanding,
    after,
    framework_of,
    judged,
    kind_by_plugins,
)
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from stoker_tuning.frameworks.answers import PluginAnswer
from stoker_tuning.vocabulary import ModelFileKind

ASKED = FrameworkQuestion()
GOOD: dict[str, Any] = {"name": "odd", "confidences": [], "kinds": [], "hints": {}, "rules": [], "templates": []}
RULE = {"id": "shards", "actions": [{"type": "prefetch"}]}


def told(**said: Any) -> ToldAnswer:
    return ToldAnswer("odd", "odd 1", json.dumps(GOOD | said).encode())


def answer(name: str, *confidences: float, kinds: tuple[ModelFileKind, ...] = ()) -> PluginAnswer:
    return PluginAnswer(name, confidences, {}, (), (), kinds or (ModelFileKind.UNKNOWN,) * len(confidences))


def test_a_good_one_brings_its_rules() -> None:
    standing = after(PluginStanding("odd"), judged(told(rules=[RULE]), ASKED), 1.0)
    assert (standing.message, standing.rules, standing.document is not None) == ("", 1, True)
    assert standing.again_in(2.0) is None


def test_one_without_rules_needs_no_document() -> None:
    assert judged(told(), ASKED).document is None


def test_one_whose_rules_are_none_is_left_out_whole() -> None:
    good = after(PluginStanding("odd"), judged(told(rules=[RULE]), ASKED), 1.0)
    bad = after(good, judged(told(rules=[{"id": "x", "actions": [{"type": "explode"}]}]), ASKED), 2.0)
    assert bad.document is None
    assert bad.rules == 0
    assert "explode" in bad.framework_row().message


def test_what_is_no_answer_is_refused() -> None:
    assert judged(ToldAnswer("odd", "odd 1", b"[" * 100_000), ASKED).refused == "it gave no answer that can be read"


def test_one_that_is_left_out_is_asked_again_later_each_time_and_then_no_more() -> None:
    standing, waits = PluginStanding("odd"), []
    for _ in range(len(AGAIN_SECONDS) + 1):
        standing = after(standing, judged(ToldAnswer("odd", "odd 1", refused="it hangs"), ASKED), 100.0)
        waits.append(standing.again_in(100.0))
    assert waits == [*AGAIN_SECONDS, None]
    assert standing.framework_row().message == "it hangs; it is not asked again before the sidecar restarts"


def test_one_that_answers_again_is_left_out_no_more() -> None:
    out = after(PluginStanding("odd"), judged(ToldAnswer("odd", "odd 1", refused="it hangs"), ASKED), 100.0)
    assert after(out, judged(told(), ASKED), 200.0).framework_row().message == ""


def test_the_surest_plug_in_says_the_framework_and_nobody_who_is_not_sure() -> None:
    assert framework_of([answer("jax", 0.0, 0.6), answer("odd", 0.9, 0.0)]) == ("odd", 0.9)
    assert framework_of([answer("jax", 0.4)]) == ("", 0.0)
    assert framework_of([]) == ("", 0.0)


def test_a_kind_counts_where_stoker_recognises_none_and_the_plug_in_is_sure() -> None:
    weights = (ModelFileKind.WEIGHTS,)
    assert kind_by_plugins("a.odd", b"?", 0, [answer("odd", 0.9, kinds=weights)]) is ModelFileKind.WEIGHTS
    assert kind_by_plugins("a.odd", b"?", 0, [answer("odd", 0.4, kinds=weights)]) is ModelFileKind.UNKNOWN
    assert kind_by_plugins("model.gguf", b"?", 0, [answer("odd", 0.9, kinds=weights)]) is ModelFileKind.UNKNOWN
