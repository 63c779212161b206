"""Queries to plug-ins arrive unchanged in another process."""

import json

import pytest

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.framework_question import MOST_FILES, FileHead, FrameworkQuestion
from stoker_plugins.order_questions import EpochQuestion, LoadQuestion
from stoker_plugins.questions import PluginQuestion, parse_question
from tests.support.cases import cases

EPOCH = OrderQuestion(10, -3, 2, 4, 8, drop_last=True, parameters=(("a", "x"), ("b", "y")))


@cases("question", FrameworkQuestion((FileHead("a", b"x"),), {"image": "i"}), LoadQuestion(), EpochQuestion(EPOCH))
def test_a_question_arrives_as_it_was_asked(question: PluginQuestion[object]) -> None:
    assert parse_question(json.loads(json.dumps(question.mapping()))) == question


@cases(
    "question, sentence",
    ({}, "PluginKind"),
    ({"kind": "framework"}, "at most 16 files"),
    ({"kind": "framework", "files": [0] * (MOST_FILES + 1), "context": {}}, "at most 16 files"),
    ({"kind": "framework", "files": [], "context": 1}, "a context"),
    ({"kind": "order"}, "describes an epoch"),
    ({"kind": "order", "order": []}, "describes an epoch"),
    ({"kind": "order", "order": {"x": 1}}, "describes an epoch"),
)
def test_an_invalid_question_is_refused(question: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_question(question)
