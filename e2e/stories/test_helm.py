"""helm upgrade applies a changed value. helm uninstall removes everything (conftest.py runs it last)."""

from e2e.cluster.processes import run, wait_for
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import PATIENCE, RELEASE, SYSTEM, Home, World, condition

WAIT = "until [ -e /tmp/done ]; do sleep 0.2; done; ls /data"


def test_an_upgrade_with_a_changed_value_keeps_running_pods_reading(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000))
    home.dataset("train", bucket)
    home.ready("train")
    world.apply(manifests.pod(home.namespace, "user", "train:/data", WAIT))
    world.wait("pod", "user", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    world.helm_install("operator.replicas=1")
    wait_for("one operator", lambda: len(world.system_pods("operator")) == 1, PATIENCE)
    world.helm_install("crds.upgrade=false")
    world.kubectl("exec", "user", "-n", home.namespace, "--", "touch", "/tmp/done")
    world.finished("user", home.namespace)
    home.dataset("after", bucket)
    home.ready("after")


def test_a_typo_in_the_values_is_refused(world: World) -> None:
    chart = "charts/stoker"
    output = world.cluster.helm("template", RELEASE, chart, "--set", "operator.replcas=3", check=False)
    assert "kind: Deployment" not in output


def test_the_api_server_knows_the_priority_of_the_operators_lease(world: World) -> None:
    def is_known() -> bool:
        return condition(world.get("flowschema", "stoker-operator-lease"), "Dangling") == "False"

    wait_for("the API server to know the level", is_known, PATIENCE)


def test_uninstall_leaves_nothing_behind(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000))
    home.dataset("train", bucket)
    home.ready("train")
    world.apply(manifests.reading_pod(home.namespace, "reader", "train"))
    world.finished("reader", home.namespace)
    world.kubectl("delete", "pod", "reader", "-n", home.namespace, "--wait")
    world.removals.finish()  # no pod of another story still reads
    world.cluster.helm("uninstall", RELEASE, "-n", SYSTEM, "--wait", "--timeout", f"{PATIENCE:.0f}s")
    wait_for("Stoker's pods to end", lambda: world.items("pods", "-n", SYSTEM) == [], PATIENCE)

    kinds = "mutatingwebhookconfigurations,validatingadmissionpolicies,csidrivers,clusterroles,flowschemas"
    left = world.kubectl("get", kinds, "-o", "name")
    assert [name for name in left.split() if "stoker" in name and "stoker-e2e" not in name] == []
    assert world.items("pv") == []
    assert world.items("nodecaches") == []
    dataset = world.get("dataset", "train", home.namespace)
    assert dataset["metadata"].get("finalizers", []) == []
    for node in world.cluster.nodes:
        entry = world.cluster.node(node).entry()
        # The node's own folders are mounts of the harness (stoker-e2e). There must be no mount of Stoker.
        script = (
            "grep -E '/var/lib/stoker/|csi.stoker.dev| - fuse ' /proc/self/mountinfo | grep -vc stoker-e2e | cat; "
            "find /var/lib/stoker/cache/datasets -mindepth 1 | wc -l"
        )
        mounts, cached = run(*entry, "sh", "-c", script).split()
        assert (mounts, cached) == ("0", "0")
    world.helm_install()
    home.ready("train")
