"""TuningProfiles use the parser of rule documents. Mistakes produce a message, never an exception."""

import random
from typing import Any

import pytest

from stoker_operator.core.classes import profiles
from stoker_operator.core.classes.profiles import ProfileReader, builtin_templates, read_object
from stoker_tuning.documents.builtin_documents import builtin_documents
from tests.unit.stoker_operator.profiles import BAD, GOOD, raw_profile
from tests.unit.stoker_tuning.documents.test_random_documents import Writer


def test_a_good_one_is_known_by_its_rules_and_templates() -> None:
    reading = read_object(raw_profile())
    assert (reading.problem, reading.rules, reading.templates) == ("", 1, frozenset({"mine"}))


def test_a_wrong_word_is_told_with_its_path_and_the_one_that_is_meant() -> None:
    problem = read_object(raw_profile(spec=BAD)).problem
    assert problem.startswith('spec.rules[0].actions[0].type: unknown action "prefech"')
    assert "did you mean prefetch?" in problem


def test_an_unknown_property_is_told_too() -> None:
    rule = GOOD["rules"][0] | {"prority": 3}
    assert "did you mean priority?" in read_object(raw_profile(spec={"rules": [rule]})).problem


def test_many_problems_are_counted() -> None:
    rules = [{"id": f"r{number}", "actions": [{"type": "prefech"}]} for number in range(30)]
    assert read_object(raw_profile(spec={"rules": rules})).problem.endswith("; and 25 more problems")


@pytest.mark.parametrize("spec", [None, [], "text", 3, {"rules": None}, {"rules": {}}, {"use": [{"template": "nix"}]}])
def test_what_is_no_document_is_a_sentence(spec: Any) -> None:
    assert read_object({"metadata": {"name": "a"}, "spec": spec}).problem


def test_a_document_deeper_than_python_goes_is_a_sentence() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert read_object({"metadata": {"name": "a"}, "spec": deep}).problem


def test_a_generation_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, read = ProfileReader(), list[int]()

    def count(raw: dict[str, Any]) -> profiles.ProfileReading:
        read.append(raw["metadata"]["generation"])
        return read_object(raw)

    monkeypatch.setattr(profiles, "read_object", count)
    for generation in (1, 1, 2):
        reader.view(raw_profile(generation=generation))
    assert read == [1, 2]


def test_the_documents_that_come_with_stoker_are_profiles() -> None:
    for document in builtin_documents():
        body = document.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        if document.spec.hardware_profiles:
            continue  # comparisons are text in documents, and values in memory
        assert read_object(body).problem == ""


def test_templates_that_come_with_stoker_are_known() -> None:
    assert "data_pipeline" in builtin_templates()


def test_random_documents_are_taken_or_refused_with_a_sentence() -> None:
    good = 0
    for seed in range(300):
        document = Writer(seed).document()
        if random.Random(seed).random() < 0.3:
            document["spec"] = random.Random(seed).choice([None, [], {"rules": [{}]}, "x", {"a": {"b": [None]}}])
        reading = ProfileReader().view(document | {"metadata": {"name": "random"}}).reading
        good += not reading.problem
    assert 0 < good < 300
