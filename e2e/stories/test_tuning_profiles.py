"""An administrator writes rules as an object: wrong ones are refused, good ones reach nodes, and leave them again."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import CommandFailedError
from e2e.cluster.processes import run, wait_for
from e2e.stories.test_taken_node import ACCOUNTS, TOKEN, kubectl_as
from e2e.support.bucket import files
from e2e.support.manifests import Object
from e2e.support.world import PATIENCE, SYSTEM, Home, World, condition

NODE = "node-1"
THERE = {"nodeSelector": {"kubernetes.io/hostname": NODE}}
# 12 MB in ten folders, each of which takes some 18 s: in the order of their names where no rule says otherwise.
COUNT, SIZE, IN_A_FOLDER = 400, 30_000, 40
SLOW = {"bandwidthLimit": "64Ki"}


def first(folder: str, action: str = "prioritize") -> Object:
    """Make a rule that has a folder warmed up before the others."""
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
        """Run kubectl apply. Raises CommandFailedError with what it said."""
        kind = {"apiVersion": "stoker.dev/v1alpha1", "kind": "TuningProfile"}
        self.world.apply(kind | {"metadata": {"name": self.name}, "spec": {"rules": list(rules)}})

    def until(self, seen: Any) -> Object:
        """Return the profile once ``seen`` is true of it."""
        return self.world.wait("tuningprofile", self.name, "", seen)

    def delete(self) -> None:
        """Delete it, if it is there."""
        self.world.kubectl("delete", "tuningprofile", self.name, "--ignore-not-found", "--wait", "--timeout=60s")

    def on_node(self) -> Object:
        """Return what the node says of it; empty: nothing."""
        rows = self.world.get("nodecache", NODE).get("status", {}).get("tuningProfiles", [])
        return next((row for row in rows if row["profile"] == self.name), {})

    def figures(self) -> dict[str, tuple[int, int]]:
        """Return by rule to how many files it applies on the node, and for how many something was turned."""
        rows = self.world.get("nodecache", NODE).get("status", {}).get("tuning", [])
        return {row["rule"]: (row["matched"], row.get("acted", 0)) for row in rows if row["profile"] == self.name}


@pytest.fixture
def profile(world: World, home: Home) -> Iterator[Profile]:
    made = Profile(world, home.namespace)
    yield made
    made.delete()


def test_a_wrong_profile_is_refused_with_its_path_and_what_may_be_meant(profile: Profile) -> None:
    with pytest.raises(CommandFailedError) as refusal:
        profile.apply(first("7", "prioritise"))
    said = str(refusal.value)
    assert "spec.rules[0].actions[0].type" in said
    assert "did you mean prioritize?" in said
    assert profile.world.get("tuningprofile", profile.name) == {}


def fetched(world: World, dataset: Object) -> list[str]:
    """Return the files of a Dataset that are whole on the node's disk."""
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
    told(world, "describe", "tp", profile.name, words="1 rule beside the built-in ones")

    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE))
    tuned: Object = {"cache": THERE, "tuning": {"profile": profile.name}}
    home.dataset("slow", bucket, warm=SLOW, **tuned)
    slow = home.until("slow", lambda it: condition(it, "Tuned") == "True")
    whole = IN_A_FOLDER, IN_A_FOLDER
    wait_for("the rule to act", lambda: profile.figures() == {"folder-7-first": whole}, PATIENCE)
    wait_for("the folder", lambda: sum("/7/" in path for path in fetched(world, slow)) == IN_A_FOLDER, PATIENCE)
    assert len(fetched(world, slow)) < 2 * IN_A_FOLDER
    # From here on it stays as it is, however slow the machine: what is whole is not tuned any more.
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


def test_a_dataset_that_names_no_profile_that_exists_says_so_and_is_warmed_all_the_same(
    world: World, home: Home
) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000))
    home.dataset("train", bucket, cache=THERE, tuning={"profile": "nowhere"})
    ready = home.ready("train")
    assert condition(ready, "Tuned") == "False"
    assert "TuningProfile nowhere does not exist" in condition(ready, "Tuned", "message")


@pytest.fixture
def careless(world: World) -> Iterator[None]:
    """Have someone give a node's two accounts more than the chart does."""
    name = "careless-with-profiles"
    made = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    verbs = ["get", "create", "patch", "update", "delete"]
    rules = [{"apiGroups": ["stoker.dev"], "resources": ["tuningprofiles"], "verbs": verbs}]
    subjects = [
        {"kind": "ServiceAccount", "name": NODE, "namespace": ACCOUNTS},
        {"kind": "ServiceAccount", "name": "stoker-sidecar", "namespace": SYSTEM},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    world.apply(
        made | {"kind": "ClusterRole", "rules": rules},
        made | {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects},
    )
    yield
    world.kubectl("delete", "clusterrolebinding,clusterrole", name)


def test_a_taken_node_writes_no_profile_even_where_someone_gave_it_the_right(
    world: World, profile: Profile, careless: None
) -> None:
    profile.apply(first("7"))
    sidecar = world.kubectl("exec", world.sidecar_of(NODE)["metadata"]["name"], "-n", SYSTEM, "--", "cat", TOKEN)
    account = world.kubectl("create", "token", NODE, "-n", ACCOUNTS).strip()
    for token in (sidecar, account):
        told_as(world, token, "annotate", "tp", profile.name, "mine=yes")
        told_as(world, token, "delete", "tp", profile.name)
    assert world.get("tuningprofile", profile.name)["metadata"].get("annotations", {}).get("mine") is None


def told_as(world: World, token: str, *words: str) -> None:
    """Wait until the policy refuses this: rights take effect a moment after they were written."""
    sentence = "a sidecar may not write tuningprofiles, only the status of its own NodeCache"
    wait_for(f"{words[0]} to be refused", lambda: sentence in kubectl_as(world, token, *words), PATIENCE)


def told(world: World, *command: str, words: str) -> None:
    wait_for(f"{words!r} in kubectl {command[0]}", lambda: words in world.kubectl(*command), PATIENCE)
