"""A custom image has an order plug-in: nodes report it, and know the order of a job that names it."""

import json
from typing import Any

import numpy
import pytest

from e2e.cluster.processes import wait_for
from e2e.stories.test_training_job import training_job, workers
from e2e.support.built import IMAGE, ORDER_PLUGIN_IMAGE, build_order_plugin_image
from e2e.support.manifests import Object
from e2e.support.world import PATIENCE, QUICKLY, Home, World, condition

COUNT, SIZE = 600, 16_000
FILES = {f"train/{n % 10}/{n:04}.jpg": n.to_bytes(2) * (SIZE // 2) for n in range(COUNT)}
SEED, EPOCHS = 11, 100
# About three seconds per epoch, in the order that NumPy itself returned.
_TRAIN = """
import json, pathlib, time

names = sorted(pathlib.Path("/data/train").glob("*/*"))
for order in json.loads(pathlib.Path("/orders/orders.json").read_text()):
    for sample in order:
        names[sample].read_bytes()
        time.sleep(0.005)  # the step of the training that is played
"""


@pytest.fixture(scope="module", autouse=True)
def image_with_the_plug_in(world: World) -> None:
    world.cluster.load_image(build_order_plugin_image())
    repository, _, tag = ORDER_PLUGIN_IMAGE.rpartition(":")
    image = (f"image.repository={repository}", f"image.tag={tag}")
    world.helm_install(*image, "sidecar.orderPlugins={numpy-legacy,absent}", *QUICKLY)


@pytest.fixture(scope="module")
def dataset(shared_home: Home) -> Home:
    """Make a Dataset with a complete copy on a node, and the orders of the reading pods."""
    bucket = shared_home.bucket()
    bucket.put(FILES)
    shared_home.dataset("train", bucket)
    shared_home.ready("train")
    orders = [numpy.random.RandomState(SEED + epoch).permutation(COUNT).tolist() for epoch in range(EPOCHS)]
    meta = {"name": "orders", "namespace": shared_home.namespace}
    data = {"orders.json": json.dumps(orders, separators=(",", ":"))}
    shared_home.world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    return shared_home


def job(home: Home, name: str, plugin: str) -> Object:
    container = {
        "image": IMAGE,
        "command": ["python3", "-c", _TRAIN],
        "securityContext": {"runAsUser": 12345, "runAsGroup": 12345, "allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "orders", "mountPath": "/orders"}],
    }
    sampling = {"sampler": f"plugin:{plugin}", "seed": SEED, "epochs": EPOCHS, "files": {"path": "train"}}
    sampling["parameters"] = {"deal": "turns"}
    made = training_job(home.namespace, name, container, sampling=sampling)
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "orders", "configMap": {"name": "orders"}}]
    return made


def row(world: World, home: Home, name: str) -> dict[str, Any]:
    """Return the node's report about the job's only worker, or empty."""
    for worker in workers(world, home, name):
        pod, node = f"{home.namespace}/{worker['metadata']['name']}", worker["spec"].get("nodeName")
        rows = world.get("nodecache", node)["status"].get("workloads", []) if node else []
        return next((dict(one) for one in rows if one["pod"] == pod), {})
    return {}


def test_the_order_of_a_job_that_names_the_plug_in_is_known(world: World, dataset: Home) -> None:
    world.apply(job(dataset, "run", "numpy-legacy"))
    known = world.wait("trainingjob", "run", dataset.namespace, lambda it: condition(it, "Order") == "True")
    assert condition(known, "Order", "reason") == "OrderKnown"

    def is_known() -> bool:
        seen = row(world, dataset, "run")
        if (seen.get("order"), seen.get("orderSource")) != ("Known", "Spec"):
            return False  # for a moment, if the plug-in computes the next epoch late
        return (seen.get("orderAgreement") or 0) >= 95 and "of plugin:numpy-legacy" in seen["orderMessage"]

    wait_for("the order to be known", is_known, PATIENCE)


def test_nodes_tell_which_order_plug_ins_they_have_and_what_is_wrong_with_one(world: World, dataset: Home) -> None:
    (node, *_) = world.items("nodecache")

    def rows() -> list[dict[str, str]]:
        return list(world.get("nodecache", node["metadata"]["name"])["status"].get("orderPlugins", []))

    wait_for("both plug-ins to be looked for", lambda: len(rows()) == 2, PATIENCE)
    good, absent = rows()
    assert (good["name"], good["package"], good["message"]) == ("numpy-legacy", "stoker-numpy-legacy 0.1.0", "")
    assert absent["message"].startswith("it is not installed in this image")
    shown = json.loads(world.stoker("tuning", "plugins", "--nodes", "-o", "json"))
    told = {(one["node"], one["name"]): one["message"] for one in shown if one["kind"] == "order"}
    assert told[node["metadata"]["name"], "absent"] == absent["message"]


def test_a_job_that_names_one_that_is_not_there_runs_and_is_told_why(world: World, dataset: Home) -> None:
    world.apply(job(dataset, "lost", "absent"))
    why = "absent is left out: it is not installed in this image"
    wait_for("the reason", lambda: why in row(world, dataset, "lost").get("orderMessage", ""), PATIENCE)
