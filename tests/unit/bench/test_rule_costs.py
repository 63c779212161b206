"""The benchmark of tuning rules measures each mix, and shows it."""

import json
from pathlib import Path

from bench.rule_costs import MIXES, measure_rules, show_rules


def test_each_mix_has_a_row_and_its_figures_are_kept(tmp_path: Path) -> None:
    costs = measure_rules(files=50, rules=8)
    lines = show_rules(costs, tmp_path / "rules.json").splitlines()
    assert [line.split()[0] for line in lines] == ["mix", *MIXES]
    assert [each["mix"] for each in json.loads((tmp_path / "rules.json").read_text())] == list(MIXES)
