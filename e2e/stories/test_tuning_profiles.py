"""An administrator writes rules as an object: they reach nodes, change there, and leave them again."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.processes import run, wait_for
from e2e.support.bucket import files
from e2e.support.manifests import Object
from e2e.support.world import PATIENCE, PATIENTLY, Home, World, condition

NODE = "node-1"
THERE = {"nodeSelector": {"kubernetes.io/hostname": NODE}}
# 12 MB in ten folders, each of which takes some 18 s: in the order of their names unless a rule changes it.
COUNT, SIZE, IN_A_FOLDER = 400, 30_000, 40
SLOW = {"bandwidthLimit": "64Ki"}


def first(folder: str, action: str = "prioritize") -> Object:
    """Make a rule that warms a folder before the others."""
    return {
        "id": f"folder-{folder}-first",
        "conditions": [{"type": "file_pattern", "value": f"{folder}/**"}],
        "actions": [{"type": action, "parameters": {"warm_order": "first"}}],
    }


class Profile:
    """A TuningProfile of one story, named after its namespace."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name

    def apply(self, *rules: Object) -> None:
        """Run kubectl apply. Raises CommandFailedError with its output."""
        kind = {"apiVersion": "stoker.dev/v1alpha1", "kind": "TuningProfile"}
        self.world.apply(kind | {"metadata": {"name": self.name}, "spec": {"rules": list(rules)}})

    def until(self, seen: Any) -> Object:
        """Return the profile when ``seen`` accepts it."""
        return self.world.wait("tuningprofile", self.name, "", seen)

    def delete(self) -> None:
        """Delete it, if it exists."""
        self.world.kubectl("delete", "tuningprofile", self.name, "--ignore-not-found", "--wait", PATIENTLY)

    def on_node(self) -> Object:
        """Return the node's report about it, or empty."""
        rows = self.world.get("nodecache", NODE).get("status", {}).get("tuningProfiles", [])
        return next((row for row in rows if row["profile"] == self.name), {})

    def figures(self) -> dict[str, tuple[int, int]]:
        """Return by rule the number of matching files on the node, and the number of those with a changed setting."""
        rows = self.world.get("nodecache", NODE).get("status", {}).get("tuning", [])
        return {row["rule"]: (row["matched"], row.get("acted", 0)) for row in rows if row["profile"] == self.name}


@pytest.fixture
def profile(world: World, home: Home) -> Iterator[Profile]:
    made = Profile(world, home.namespace)
    yield made
    made.delete()


def fetched(world: World, dataset: Object) -> list[str]:
    """Return the complete files of a Dataset on the node's disk."""
    tree = f"/var/lib/stoker/cache/datasets/{dataset['metadata']['uid']}/versions/*/tree"
    script = f"cd {tree} && find . -type f"
    return run(*world.cluster.node(NODE).entry(), "sh", "-c", script).split()


def test_a_profile_reaches_the_nodes_of_its_datasets_changes_live_and_leaves_them(
    world: World, home: Home, profile: Profile
) -> None:
    profile.apply(first("7"))
    accepted = profile.until(lambda it: condition(it, "Accepted") == "True")
    assert accepted["status"]["ruleCount"] == 1
    titles, row = world.kubectl("get", "tp", profile.name).splitlines()
    assert titles.split() == ["NAME", "ACCEPTED", "RULES", "NODES", "DATASETS", "DEFAULT", "AGE"]
    assert row.split()[:3] == [profile.name, "True", "1"]
    told(world, "describe", "tp", profile.name, words="1 rule in addition to the built-in ones")

    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE))
    tuned: Object = {"cache": THERE, "tuning": {"profile": profile.name}}
    home.dataset("slow", bucket, warm=SLOW, **tuned)
    slow = home.until("slow", lambda it: condition(it, "Tuned") == "True")
    whole = IN_A_FOLDER, IN_A_FOLDER
    wait_for("the rule to act", lambda: profile.figures() == {"folder-7-first": whole}, PATIENCE)
    wait_for("the folder", lambda: sum("/7/" in path for path in fetched(world, slow)) == IN_A_FOLDER, PATIENCE)
    assert len(fetched(world, slow)) < 2 * IN_A_FOLDER
    # From here on it does not change, however slow the machine: complete files are not tuned any more.
    home.dataset("slow", bucket, warm=SLOW | {"paused": True}, **tuned)
    here = profile.until(lambda it: [node["name"] for node in it["status"].get("nodes", [])] == [NODE])
    assert here["status"]["datasets"] == [f"{home.namespace}/slow"]

    sidecar = world.sidecar_of(NODE)["metadata"]["uid"]
    profile.apply(first("7"), first("8"))
    both = {"folder-7-first": whole, "folder-8-first": whole}
    wait_for("the changed rules to act", lambda: profile.figures() == both, PATIENCE)
    profile.until(lambda it: [node["generation"] for node in it["status"]["nodes"]] == [2])
    acted = dict.fromkeys(both, IN_A_FOLDER)
    profile.until(lambda it: {row["rule"]: row.get("acted") for row in it["status"].get("rules", [])} == acted)

    profile.delete()
    home.until("slow", lambda it: condition(it, "Tuned", "reason") == "ProfileNotFound")
    wait_for("the built-in rules", lambda: "does not exist" in profile.on_node().get("message", ""), PATIENCE)
    wait_for("the rules to leave", lambda: profile.figures() == {}, PATIENCE)
    assert world.sidecar_of(NODE)["metadata"]["uid"] == sidecar


def told(world: World, *command: str, words: str) -> None:
    wait_for(f"{words!r} in kubectl {command[0]}", lambda: words in world.kubectl(*command), PATIENCE)
