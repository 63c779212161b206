"""The webhook sees annotated pods only, and a replica that goes away lets none through unseen."""

from e2e.cluster.images import BUSYBOX_IMAGE
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import SYSTEM, Home, World, metric


def reviews(world: World) -> float:
    """Count the requests that the webhook of all replicas has answered."""
    return sum(metric(pod, "stoker_webhook_requests_total") for pod in world.system_pods("operator"))


def test_only_annotated_pods_reach_the_webhook(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(2, 100))
    home.dataset("train", bucket)
    home.ready("train")
    before = reviews(world)
    for index in range(5):
        world.apply(manifests.pod(home.namespace, f"plain-{index}", "", "true"))
    assert reviews(world) == before
    world.apply(manifests.pod(home.namespace, "annotated", "train:/data", "true"))
    assert reviews(world) > before


def test_while_a_replica_goes_away_annotated_pods_are_refused_or_served_and_never_missed(
    world: World, home: Home
) -> None:
    bucket = home.bucket()
    bucket.put(files(2, 100))
    home.dataset("train", bucket)
    home.ready("train")
    gone = world.system_pods("operator")[0]["metadata"]["name"]
    world.kubectl("delete", "pod", gone, "-n", SYSTEM, "--wait=false")
    served = []
    for index in range(10):
        name = f"pod-{index}"
        text = world.cluster.kubectl(
            "run", name, "-n", home.namespace, f"--image={BUSYBOX_IMAGE}", "--image-pull-policy=Never",
            "--annotations=stoker.dev/datasets=train:/data", "--restart=Never", "--", "true", check=False,
        )  # fmt: skip
        if "created" in text:
            served.append(world.get("pod", name, home.namespace))
    assert all("stoker.dev/managed" in pod["metadata"]["labels"] for pod in served)
    assert served, "two replicas, and not one pod was served"
    world.kubectl("rollout", "status", "deployment", "-n", SYSTEM, "--timeout=120s")
