"""The command `stoker tuning explain POD` with TuningProfiles."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.errors import NodesRefusedError
from stoker_cli.main import main
from stoker_cli.tuning import command
from tests.support.cases import cases
from tests.unit.stoker_cli.builders import connect_to

DEEP = {"type": "prefetch", "target": "dataset", "parameters": {"prefetch_depth": 77}}
SPEC: dict[str, Any] = {"rules": [{"id": "deep", "actions": [DEEP]}]}


class PodCluster:
    """A cluster with one node and one pod, whose Datasets have ``tunings``."""

    def __init__(self) -> None:
        self.tunings: list[dict[str, Any]] = [{"profile": "fast"}]
        self.profiles: dict[str, dict[str, Any]] = {"fast": profile(SPEC)}
        self.says: list[dict[str, Any]] = [{"profile": "fast", "generation": 2}]
        self.annotations: dict[str, str] = {}
        self.row: dict[str, Any] = {}
        self.status: dict[str, Any] = {}
        self.refused = False

    async def workload_caches(self, namespace: str) -> list[NodeCache]:
        (cache,) = await self._known()
        status = cache.status.model_copy(update={"tuning_profiles": ()})
        return [NodeCache(metadata=cache.metadata, status=status)]

    async def node_caches(self) -> list[NodeCache]:
        if self.refused:
            raise NodesRefusedError("You may not read NodeCaches.")
        return await self._known()

    async def _known(self) -> list[NodeCache]:
        datasets = [
            {"namespace": "vision", "name": f"d{number}", "uid": f"u{number}", "source": {"uri": "s3://b"}, "tuning": t}
            for number, t in enumerate(self.tunings)
        ]
        names = [f"vision/d{number}" for number in range(len(self.tunings))]
        row = {"pod": "vision/a", "datasets": names, "phase": "Training"}
        cache = {"metadata": {"name": "n", "annotations": self.annotations}, "spec": {"datasets": datasets}}
        status = {"workloads": [row | self.row], "tuningProfiles": self.says} | self.status
        return [NodeCache.model_validate(cache | {"status": status})]

    async def tuning_profile(self, name: str) -> dict[str, Any] | None:
        return self.profiles.get(name)


def profile(spec: dict[str, Any], generation: int = 2) -> dict[str, Any]:
    return {"metadata": {"name": "fast", "generation": generation}, "spec": spec}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PodCluster:
    made = PodCluster()

    connect_to(monkeypatch, made, command)
    return made


def test_without_access_to_nodecaches_the_built_in_rules_are_explained_with_a_note(cluster: PodCluster) -> None:
    cluster.refused = True
    found = explained()
    assert "are unknown" in found["notes"][0]


def explained(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["tuning", "explain", "vision/a", "-o", "json", *words])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_the_profile_in_the_nodecache_is_explained(cluster: PodCluster) -> None:
    found = explained()

    assert (found["values"]["prefetch_depth"]["value"], found["values"]["prefetch_depth"]["rule"]) == (77, "deep")
    assert found["rulesOf"] == "the rules of TuningProfile fast and the built-in ones"
    assert (found["notes"], found["datasets"], found["others"]) == ([], ["vision/d0"], [])


def test_the_text_names_the_origin_of_the_rules(cluster: PodCluster) -> None:
    cluster.says = []
    words = CliRunner().invoke(main, ["tuning", "explain", "vision/a"]).stdout

    assert "Datasets: vision/d0. By the rules of TuningProfile fast and the built-in ones:" in words
    assert "This is generation 2; the node applies no generation." in words


def test_datasets_with_different_rules_are_explained_separately(cluster: PodCluster) -> None:
    cluster.tunings = [{"profile": "fast"}, {}, {"profile": "fast"}]
    found = explained()

    assert found["datasets"] == ["vision/d0", "vision/d2"]
    assert [each["datasets"] for each in found["others"]] == [["vision/d1"]]
    assert "deep" not in found["others"][0]["rules"]


def test_a_missing_profile_is_a_note_and_the_built_in_rules_are_explained(cluster: PodCluster) -> None:
    cluster.profiles = {}
    found = explained()

    assert found["rulesOf"] == "the built-in rules"
    assert "TuningProfile fast is not included: it does not exist" in found["notes"][0]


def test_an_older_generation_in_force_is_a_note(cluster: PodCluster) -> None:
    cluster.says = [{"profile": "fast", "generation": 1, "message": "generation 2 cannot be read"}]

    assert explained()["notes"] == ["This is generation 2; the node applies generation 1: generation 2 cannot be read"]


def test_an_invalid_profile_is_a_note(cluster: PodCluster) -> None:
    cluster.profiles = {"fast": profile({"rules": [{"id": "deep", "actions": [{"type": "prefech"}]}]})}
    found = explained()

    assert found["rulesOf"] == "the built-in rules"
    assert "TuningProfile fast is invalid" in found["notes"][-1]


def test_the_level_of_the_dataset_counts_after_the_profiles_rules(cluster: PodCluster) -> None:
    cluster.tunings = [{"profile": "fast", "level": "Maximum", "mostLevel": "Balanced"}]
    found = explained()

    assert (found["values"]["level"]["value"], found["values"]["level"]["rule"]) == ("Maximum", "level")
    assert found["notes"] == ["The DatasetClass allows at most the level Balanced."]


@cases(
    "tunings, annotations, note",
    ({"enabled": False}, {}, "These values are not applied: tuning is off for the Dataset."),
    ({}, {"stoker.dev/tuning": "Off"}, "These values are not applied: tuning is off on n."),
)
def test_disabled_tuning_is_a_note(
    cluster: PodCluster, tunings: dict[str, Any], annotations: dict[str, str], note: str
) -> None:
    cluster.tunings, cluster.annotations = [tunings], annotations

    assert explained()["notes"] == [note]


HARDWARE = {"memoryBytes": 1 << 36, "gpus": 8, "networkBytesPerSecond": 1_000_000_000}


def conditioned(*conditions: dict[str, Any]) -> dict[str, Any]:
    return profile({"rules": [{"id": "deep", "conditions": list(conditions), "actions": [DEEP]}]})


def test_the_facts_of_the_node_and_of_the_pods_spec_count(cluster: PodCluster) -> None:
    cluster.profiles["fast"] = conditioned(
        {"type": "system_context", "property": "gpu_count", "operator": "greater_or_equal", "value": 8},
        {"type": "workload_context", "property": "batch_size", "operator": "equals", "value": 256},
        {"type": "workload_context", "property": "job", "operator": "equals", "value": "resnet"},
    )
    assert explained()["values"]["prefetch_depth"]["value"] != 77
    cluster.row, cluster.status = {"batchSize": 256, "job": "resnet"}, {"hardware": HARDWARE}
    assert explained()["values"]["prefetch_depth"]["value"] == 77
    assert explained("--gpus", "1")["values"]["prefetch_depth"]["value"] != 77


@pytest.mark.parametrize(("measured", "applies"), [(None, False), (40_000_000, True)])
def test_the_measured_rate_of_its_dataset_is_its_bandwidth(
    cluster: PodCluster, measured: int | None, applies: bool
) -> None:
    cluster.profiles["fast"] = conditioned(
        {"type": "system_context", "property": "bandwidth", "operator": "less_than", "value": "100M"}
    )
    rows = [{"namespace": "vision", "name": "d0", "uid": "u0", "bestSourceBytesPerSecond": measured}]
    cluster.status = {"hardware": HARDWARE, "datasets": rows}
    assert (explained()["values"]["prefetch_depth"]["value"] == 77) is applies


@cases(
    "own, told, level",
    ({}, {}, None),
    ({}, {"environment": "production"}, "Aggressive"),
    ({"environment": "staging"}, {"environment": "production"}, "Balanced"),
    ({}, {"environment": "lab"}, None),
    ({"environments": [{"name": "lab", "settings": {"level": "Maximum"}}]}, {"environment": "lab"}, "Maximum"),
)
def test_the_cluster_environment_applies_without_one_in_the_profile(
    cluster: PodCluster, own: dict[str, Any], told: dict[str, Any], level: str | None
) -> None:
    cluster.profiles["fast"] = profile(SPEC | own)
    cluster.tunings = [{"profile": "fast"} | told]
    found = explained()
    by_environment = "environment" in str(found["values"]["level"])
    assert (found["values"]["level"]["value"] if by_environment else None) == level
    assert any("is unknown here" in note for note in found["notes"]) is (told == {"environment": "lab"} and not own)


@cases(
    "status, effect",
    ({}, None),
    (
        {"tuning": [{"profile": "fast", "rule": "deep", "helped": 2}]},
        {"verdict": "helped", "gainPercent": None, "helped": 2, "trials": None},
    ),
)
def test_the_value_of_a_rule_has_its_measured_effect(
    cluster: PodCluster, status: dict[str, Any], effect: dict[str, Any] | None
) -> None:
    cluster.status = status
    value = explained()["values"]["prefetch_depth"]
    assert (value["rule"], value["effect"]) == ("deep", effect)


def test_an_unmeasured_rule_is_marked_in_the_table(cluster: PodCluster) -> None:
    result = CliRunner().invoke(main, ["tuning", "explain", "vision/a"])
    (line,) = (" ".join(each.split()) for each in result.stdout.splitlines() if each.startswith("prefetch_depth"))
    assert line.endswith("always not measured yet")
