"""Values of the chart that change the mounts of pods: hostPID for running pods, no overlay, several cache folders."""

from collections.abc import Iterable

from e2e.cluster.processes import run, wait_for
from e2e.support import manifests
from e2e.support.bucket import Bucket, files
from e2e.support.world import PATIENCE, QUICKLY, Home, World

COUNT, SIZE = 50, 20_000
# One file of each Dataset is opened cold and read at the end. Others are reopened and read all the time.
READ = (
    "exec 3</early/0/00000.bin 4</late/0/00000.bin; until [ -e /tmp/done ]; do "
    "sha256sum /early/1/* /late/1/* || echo failed; sleep 0.2; done; sha256sum <&3; sha256sum <&4"
)


def reader(namespace: str) -> manifests.Object:
    """Make a pod without annotations: the webhook never sees it, and its volumeMounts request no propagation."""
    pod = manifests.pod(namespace, "reader", "", READ)
    names = ("early", "late")
    csi = {
        name: {"driver": "csi.stoker.dev", "readOnly": True, "volumeAttributes": {"dataset": name}} for name in names
    }
    pod["spec"]["volumes"] = [{"name": name, "csi": csi[name]} for name in names]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return pod


def cold_dataset(home: Home, bucket: Bucket, name: str) -> None:
    home.dataset(name, bucket, f"{name}/", cache={"replicas": 0}, warm={"paused": True})
    home.until(name, lambda it: it.get("status", {}).get("files") == COUNT)


def modes_on_node(world: World, home: Home, node: str) -> dict[str, str]:
    """Return the mount mode of each Dataset of the namespace, as the node reports it."""
    mounts = world.get("nodecache", node)["status"].get("mounts", [])
    return {row["dataset"]: row["mode"] for row in mounts if row["podNamespace"] == home.namespace}


def seen_in_pod(world: World, home: Home, dataset: str) -> str:
    """Return the file system type of the container's top mount there: native for a folder of the disk."""
    rows = world.kubectl("exec", "reader", "-n", home.namespace, "--", "cat", "/proc/self/mountinfo").splitlines()
    return [row.split(" - ")[1].split()[0] for row in rows if row.split()[4] == f"/{dataset}"][-1]


def is_native(world: World, home: Home, dataset: str) -> bool:
    return seen_in_pod(world, home, dataset) not in ("fuse.stoker", "overlay")


def mounts_of(world: World, node: str, marks: Iterable[str]) -> list[str]:
    """List the node's mounts with one of the UIDs."""
    rows = run(*world.cluster.node(node).entry(), "cat", "/proc/self/mountinfo").splitlines()
    return [row for row in rows if any(mark in row for mark in marks)]


def warm(world: World, home: Home, node: str, dataset: str) -> None:
    world.stoker("-n", home.namespace, "resume", dataset)
    home.until(dataset, lambda _: modes_on_node(world, home, node)[dataset] == "native")


def test_a_pod_with_its_own_mounts_stays_as_it_began_until_host_pid_makes_it_native_as_it_reads(
    world: World, home: Home
) -> None:
    world.helm_defaults()
    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE, "early/") | files(COUNT, SIZE, "late/", seed=2))
    for name in ("early", "late"):
        cold_dataset(home, bucket, name)
    world.apply(reader(home.namespace))
    pod = world.wait("pod", "reader", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    node = pod["spec"]["nodeName"]

    warm(world, home, node, "early")
    assert not is_native(world, home, "early")
    why = world.stoker("-n", home.namespace, "why", "reader")
    assert "'main' mounts it at /early without mountPropagation: HostToContainer" in why
    assert "sidecar.hostPID" in why

    world.helm_install("sidecar.hostPID=true", *QUICKLY)
    wait_for("the running container to read natively", lambda: is_native(world, home, "early"), PATIENCE)
    assert not is_native(world, home, "late")
    warm(world, home, node, "late")
    wait_for("what became warm later, too", lambda: is_native(world, home, "late"), PATIENCE)
    uids = [world.get("dataset", name, home.namespace)["metadata"]["uid"] for name in ("early", "late")]
    marks = [pod["metadata"]["uid"], *uids]
    assert mounts_of(world, node, marks) != []

    world.kubectl("exec", "reader", "-n", home.namespace, "--", "touch", "/tmp/done")
    world.finished("reader", home.namespace)
    sums = bucket.sums()
    read = {f"{digest}  /{path}" for path, digest in sums.items() if "/1/" in path}
    held = {f"{sums[f'{name}/0/00000.bin']}  -" for name in ("early", "late")}
    assert set(world.logs("reader", home.namespace).splitlines()) == read | held

    world.kubectl("delete", "pod", "reader", "-n", home.namespace, "--wait")
    wait_for("the node to have no mount of the pod", lambda: mounts_of(world, node, marks) == [], PATIENCE)


FOLDERS = [("Memory", True), ("Disk", True), ("Disk", True)]
LARGE = 2 * 2**20


def holds(used: list[int]) -> bool:
    """Return True if the memory folder holds ten small files, and a disk ten large ones."""
    memory, *disks = used
    return 10 * SIZE <= memory < 10 * LARGE <= max(disks)


def test_without_overlay_and_with_several_cache_folders_data_goes_where_there_is_room(world: World, home: Home) -> None:
    memory = ("sidecar.cacheDirs[0].medium=Memory", "sidecar.cacheDirs[0].sizeLimit=16Mi")
    disks = ("sidecar.cacheDirs[1]=/var/lib/stoker/cache", "sidecar.cacheDirs[2]=/var/lib/second")
    world.helm_install("sidecar.overlay=Off", *memory, *disks, *QUICKLY)
    bucket = home.bucket()
    bucket.put(files(10, SIZE, "small/") | files(10, LARGE, "large/"))  # 20 MiB: more than the memory folder holds
    for name in ("small", "large"):
        home.dataset(name, bucket, f"{name}/", cache={"nodeSelector": {"kubernetes.io/hostname": "node-1"}})
    every = manifests.SUM_EVERYTHING.format(path="/data")
    world.apply(manifests.pod(home.namespace, "reader", "small:/data/small, large:/data/large", every))
    assert home.read_sums("reader") == bucket.sums()

    def used() -> list[int]:
        return [row["usedBytes"] for row in world.get("nodecache", "node-1")["status"]["cacheFolders"]]

    wait_for("memory to hold the small one and a disk the large one", lambda: holds(used()), PATIENCE)
    status = world.get("nodecache", "node-1")["status"]
    assert [(row["medium"], row["healthy"]) for row in status["cacheFolders"]] == FOLDERS
    assert status["modes"] == ["native", "fuse"]
