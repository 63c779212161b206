"""The figures of gating come from decisions that are right, also in the smallest cluster."""

import json
from pathlib import Path

from bench.gate_passes import PODS, measure_gate, show_gate


def test_every_pod_lands_warm_while_there_is_room_and_the_figures_are_kept(tmp_path: Path) -> None:
    full, releases = measure_gate([20, 40])
    assert [(one.warm, one.released, one.warm_ones) for one in releases] == [
        (1, 100, 100),
        (3, 300, 300),
        (10, PODS, PODS),
    ] * 2
    shown = show_gate(full, releases, tmp_path / "gate.json")
    assert "exponent" in shown
    assert len(json.loads((tmp_path / "gate.json").read_text())["releases"]) == len(releases)
