"""No annotated pod passes the webhook unseen when a replica stops."""

from e2e.cluster.images import BUSYBOX_IMAGE
from e2e.support.bucket import files
from e2e.support.world import PATIENTLY, SYSTEM, Home, World


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
    world.kubectl("rollout", "status", "deployment", "-n", SYSTEM, PATIENTLY)
