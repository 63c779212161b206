"""Random documents, valid, almost valid and garbage: accepted, or rejected with a place and a message.

`STOKER_RANDOM_DOCUMENTS=10000` sets their number; the default is some hundreds.
"""

import json
import os
import random
from typing import Any

import pytest
import yaml

from stoker_tuning.documents.assembly import TuningRules, read_profile
from stoker_tuning.documents.errors import DocumentError, Problem
from stoker_tuning.documents.named_sets import named_sets
from stoker_tuning.recommend.knobs import KNOBS, Knob, KnobKind, knob_names
from stoker_tuning.recommend.recommendation import recommend
from stoker_tuning.rules.compiled import compile_rules
from stoker_tuning.rules.facts import AccessFacts, FileFacts, Surroundings, SystemFacts, WorkloadFacts
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.merging import given_values
from stoker_tuning.rules.properties import OPERATORS, PROPERTIES, FactProperty, ValueKind
from stoker_tuning.vocabulary import (
    AccessPattern,
    ActionTarget,
    ActionType,
    ConditionOperator,
    ModelFileKind,
    Split,
    TrainingPhase,
)

COUNT = int(os.environ.get("STOKER_RANDOM_DOCUMENTS", "400"))
TEXTS = ["train", "*.jpg", "a/**", ".tar", "(a|b)+$", "[", "a{9}", "x" * 300, "\x00", "\u202e", "é", "", "1Gi", ">= 8"]
JUNK: list[Any] = [
    None,
    True,
    -1,
    1e308,
    10**30,
    "",
    [],
    {},
    [[]],
    {"a": None},
    "on",
    "\ud83d\ude00",
    "&a",
    "*a",
    "!!x",
]
FILES = [FileFacts("train/1.jpg", 100), FileFacts("model.safetensors", 1 << 30, ModelFileKind.WEIGHTS, Split.TRAIN)]
AROUND = Surroundings(
    AccessFacts(AccessPattern.SHUFFLED, 5.0),
    WorkloadFacts("pytorch", TrainingPhase.TRAINING, 32.0, "job", "vision", ModelFileKind.WEIGHTS),
    SystemFacts(1 << 36, 8, 1 << 30, 1 << 40),
)


class Writer:
    """Writes random documents."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def document(self) -> Any:
        spec: dict[str, Any] = {"rules": self.rules()}
        for name, value in (
            ("environment", "production"),
            ("use", [{"template": "data_pipeline", "parameters": {"chunk_size": "1Mi"}}]),
            ("settings", {"level": "Maximum", "debug": True}),
            ("templates", [{"id": "mine", "rules": [self.rule("t")]}]),
            ("frameworks", [{"name": "mxnet", "rules": self.rules()}]),
            ("environments", [{"name": "lab", "rules": self.rules(), "settings": {}}]),
            ("hardware_profiles", [{"name": "big", "conditions": {"gpu_count": ">= 8"}, "rules": self.rules()}]),
        ):
            if self.chance.random() < 0.3:
                spec[name] = value
        head = {"apiVersion": "stoker.dev/v1alpha1", "kind": "TuningProfile", "metadata": {"name": "random"}}
        return {**head, "spec": spec}

    def rules(self) -> list[Any]:
        return [self.rule(f"r{number}") for number in range(self.chance.randrange(4))]

    def rule(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "priority": self.chance.randrange(1001),
            "threshold": self.chance.choice([0.1, 0.5, 1, 1.0]),
            "conditions": [self.condition() for _ in range(self.chance.randrange(4))],
            "actions": [self.action() for _ in range(self.chance.randrange(1, 3))],
        }

    def condition(self) -> dict[str, Any]:
        of = self.chance.choice(PROPERTIES)
        operator = self.chance.choice(OPERATORS[of.kind])
        value = self.value(of)
        if operator in (ConditionOperator.IN, ConditionOperator.NOT_IN):
            value = [self.value(of) for _ in range(self.chance.randrange(1, 4))]
        if operator is ConditionOperator.EXISTS:
            value = self.chance.choice([True, False])
        weight = self.chance.choice([0.25, 0.5, 1])
        return {"type": str(of.scope), "property": of.name, "operator": str(operator), "value": value, "weight": weight}

    def value(self, of: FactProperty) -> Any:
        if of.kind is ValueKind.WORD:
            return str(self.chance.choice(of.words))
        if of.kind is ValueKind.NUMBER:
            return self.chance.choice([0, 8, 0.5])
        if of.kind is ValueKind.BYTES:
            return self.chance.choice([0, "64Ki", "1.5Gi", 12345])
        return self.chance.choice(["train", ".jpg", "*.tar", "a/**", "model.safetensors"])

    def action(self) -> dict[str, Any]:
        kind = self.chance.choice(list(ActionType))
        names = self.chance.sample(knob_names(kind), 1)
        knobs = [knob for knob in KNOBS if knob.name in names]
        target = str(self.chance.choice(list(ActionTarget)))
        return {"type": str(kind), "target": target, "parameters": {knob.name: self.setting(knob) for knob in knobs}}

    def setting(self, knob: Knob) -> Any:
        if knob.words is not None:
            return str(self.chance.choice(list(knob.words)))
        return True if knob.kind is KnobKind.SWITCH else self.chance.choice([knob.least, knob.most])

    def mutated(self, value: Any) -> Any:
        """Break a document in one place."""
        at = value
        while True:
            keys: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                return value
            key = self.chance.choice(keys)
            if isinstance(at[key], dict | list) and at[key] and self.chance.random() < 0.85:
                at = at[key]
                continue
            self.spoil(at, key)
            return value

    def spoil(self, at: Any, key: Any) -> None:
        what = self.chance.randrange(4)
        if what == 0:
            del at[key]
        elif what == 1:
            at[key] = self.chance.choice(JUNK)
        elif what == 2:
            at[key] = self.chance.choice(TEXTS)
        elif isinstance(at, dict):
            at[f"{key}x"] = at.pop(key)

    def source(self) -> bytes:
        kind = self.chance.random()
        if kind < 0.15:
            return self.chance.randbytes(self.chance.randrange(300))
        document = self.document()
        for _ in range(0 if kind < 0.4 else self.chance.randrange(1, 4)):
            document = self.mutated(document)
        indent = self.chance.choice([None, 1, "\t"])
        text = json.dumps(document, indent=indent) if self.chance.random() < 0.5 else yaml.safe_dump(document)
        return self.garbled(text.encode("utf-8", "replace")) if kind > 0.85 else text.encode("utf-8", "replace")

    def garbled(self, text: bytes) -> bytes:
        """Change some bytes."""
        found = bytearray(text)
        for _ in range(self.chance.randrange(1, 6)):
            found[self.chance.randrange(len(found))] = self.chance.choice(b"{}[]:,&*!|>'\"%@\n\t\x00\xff -#?ax0")
        return bytes(found)


def evaluated(found: TuningRules) -> None:
    """Use the rules as a node does."""
    rules = compile_rules(list(found.rules))
    for around in (Surroundings(), AROUND):
        file_rules = FileRules(rules, around)
        for file in FILES:
            one_by_one = [place for place, each in enumerate(rules) if each.score(around, file).applies]
            assert list(file_rules.applying(file)) == one_by_one
            recommend(given_values(rules, one_by_one, file), named_sets())


def verdict(source: bytes) -> tuple[Problem, ...]:
    """Parse a document and use it. Return its problems."""
    try:
        evaluated(read_profile(source))
    except DocumentError as error:
        return error.problems
    return ()


def told_well(problem: Problem, source: bytes) -> bool:
    """Return True if a problem has a place in the document, and a message."""
    lines = source.decode("utf-8", "replace").count("\n") + source.count(b"\r") + 2
    placed = 1 <= problem.line <= lines and problem.column >= 1
    return placed and len(problem.message.split()) > 1 and str(problem).isprintable()


@pytest.mark.timeout(1800)
def test_a_random_document_is_taken_or_refused_with_a_place_and_a_sentence() -> None:
    taken = 0
    for seed in range(COUNT):
        source = Writer(seed).source()
        problems = verdict(source)
        taken += not problems
        assert all(told_well(problem, source) for problem in problems), seed
    assert COUNT // 10 < taken < COUNT  # both valid and invalid ones occurred
