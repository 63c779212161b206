"""Batches of accesses on their way to the agent, from processes that may be compromised."""

import json
from typing import Any

import pytest

from stoker_sidecar.wire.access_protocol import MOST_ROWS, AccessBatch, AccessRow, parse_batch
from tests.support.cases import cases

BATCH = AccessBatch(
    3, 1.0, 2.0, 0.5, 7, reads=2, bytes=8192, waited=0.25, lost=1, rows=(AccessRow(1.5, 9, 0, 4096, 77),)
)


def wire(batch: AccessBatch = BATCH, **changes: Any) -> dict[str, Any]:
    packet: dict[str, Any] = json.loads(json.dumps(batch.packet())) | changes
    return packet


def test_a_batch_arrives_as_it_was_sent() -> None:
    assert parse_batch(wire()) == BATCH


def test_the_longest_batch_fits_a_packet() -> None:
    row = AccessRow(1e9 / 3, 2**63 - 1, 2**40, 2**20, 2**22)
    assert len(json.dumps(AccessBatch(1, 0.0, 1.0, 1.0, 1, rows=(row,) * MOST_ROWS).packet())) < 64 * 1024


@cases(
    "changes",
    {"opens": -1},
    {"opens": True},
    {"share": 1.5},
    {"share": float("nan")},
    {"since": float("inf")},
    {"since": 3.0},
    {"waited": 9.0},
    {"watch": "3"},
    {"rows": [[1.0, 1, 0, 0, 0]] * (MOST_ROWS + 1)},
    {"rows": [[1.0, 1, 0, 0]]},
    {"rows": [[1.0, -1, 0, 0, 0]]},
    {"rows": [["now", 1, 0, 0, 0]]},
    {"rows": {}},
)
def test_what_is_no_batch_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_batch(wire(**changes))
