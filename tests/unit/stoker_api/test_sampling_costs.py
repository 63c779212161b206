"""The agent validates samplings in process, because the largest text costs about a millisecond."""

import time
from collections.abc import Callable

import pytest

from stoker_api.jobs.sampling import MOST_CHARACTERS, parse_sampling_text
from stoker_sidecar.agent.orders.reported_plans import MOST_REPORTED, parse_reported_sampling
from tests.support.cases import cases
from tests.support.cpu_speed import slowdown

_MOST_SECONDS = 0.005  # measured: 1.1 ms
_PARTS = {
    "unknown fields": ("{", '"%x":0,', '"z":0}'),
    "wrong parameters": ('{"sampler":"plugin:x","parameters":{', '"%x":1,', '"z":1}}'),
    "depth": ('{"files":', "[", "]"),
    "a long sampler": ('{"sampler":"torch-', "torch-", '"}'),
    "a path that climbs": ('{"files":{"path":"', "../", '"}}'),
    "a large number": ('{"seed":', "1", "}"),
    "a long fraction": ('{"ratio":0.', "1", "}"),
    "signs of four bytes": ('{"dataset":"', "\N{GRINNING FACE}", '"}'),
}


def largest(kind: str, most: int) -> str:
    begin, part, end = _PARTS[kind]
    text, number = begin, 0
    while len(text) + len(part) + 4 + len(end) <= most:
        text += part % number if "%" in part else part
        number += 1
    return text + end


@cases("parse, most", (parse_sampling_text, MOST_CHARACTERS), (parse_reported_sampling, MOST_REPORTED))
@pytest.mark.parametrize("kind", _PARTS)
def test_the_largest_text_costs_about_a_millisecond_and_is_refused_shortly(
    parse: Callable[[str], object], most: int, kind: str
) -> None:
    text, took = largest(kind, most), []
    for _ in range(5):
        began = time.thread_time()
        with pytest.raises(ValueError, match="sampling") as refused:
            parse(text)
        took.append((time.thread_time() - began) / slowdown())
    assert min(took) < _MOST_SECONDS
    assert len(str(refused.value)) < 700
