"""A start is measured in a cluster in which nothing is to be done, and shown by its parts."""

import json
from pathlib import Path

from bench.coldstart.measurement import show_start
from bench.coldstart.objects import save_objects
from bench.coldstart.start import Start


def test_a_cluster_has_what_an_api_server_lists_of_it(tmp_path: Path) -> None:
    save_objects(100, 10, 2, tmp_path / "objects")
    lines = (tmp_path / "objects").read_text().splitlines()
    counts: dict[str, int] = {}
    for line in lines:
        path, own, body = line.split(" ", 2)
        counts[path.rsplit("/", 1)[-1]] = counts.get(path.rsplit("/", 1)[-1], 0) + 1
        assert json.loads(body)["metadata"]["resourceVersion"]
        assert own.endswith("/" + json.loads(body)["metadata"]["name"])
    assert counts | {"rolebindings": 0} == {
        "nodes": 100,
        "pods": 200,
        "nodecaches": 100,
        "datasets": 12,
        "persistentvolumes": 12,
        "persistentvolumeclaims": 12,
        "serviceaccounts": 100,
        "roles": 1,
        "rolebindings": 0,
    }


def test_the_table_has_a_line_for_each_part_that_matters(tmp_path: Path) -> None:
    parts = {"imports": 1.0, "loop of pods": 0.5, "x": 0.01}
    found = Start(parts, at={"quiet": 1.5}, seconds=3.0, steps={"loop of pods": 0.004}, blocked=0.01, peak=0)
    shown = show_start(found, tmp_path / "start.json")
    assert [line.split() for line in shown.splitlines() if "loop of pods" in line] == [
        ["loop", "of", "pods", "0.50", "s", "4.0", "ms"]
    ]
    assert "x" not in {line.split()[0] for line in shown.splitlines()}
    assert json.loads((tmp_path / "start.json").read_text())["seconds"] == 3.0
