"""A small cluster in which every view of the page has content."""

from datetime import UTC, datetime, timedelta
from typing import Any

from stoker_api import names
from stoker_api.meta import format_bytes
from stoker_kube.api import Object
from stoker_kube.resources import DATASETS, EVENTS, NODE_CACHES, POD_FIGURES, PODS, TRAINING_JOBS
from tests.unit.stoker_cli.builders import condition
from tests.unit.stoker_cli.dashboard.users import ADMIN_READS, WRITES, Rights, UserKube, dataset, held, job, node

NODES = 12
GIB = 1 << 30
HOSTILE = '"><script>window.attacked = true</script><img src=x onerror="window.attacked = true">'
# Name, warm percent on most nodes, size in GiB.
_SETS = (("imagenet", 100, 138), ("laion-part", 62, 410), ("kinetics", 35, 260), ("coco", 100, 25), ("video", 4, 900))
_READY: dict[str, Any] = {"modes": ["native", "overlay", "fuse"], "sidecarVersion": "0.1.0", "observer": "fanotify"}


def sample_cluster(reads: Rights = ADMIN_READS, writes: Rights = WRITES) -> UserKube:
    """Make the cluster, as a user with these rights sees it. Some of its texts are hostile."""
    kube = UserKube(reads, writes)
    kube.seed(DATASETS, *(_dataset(*each) for each in _SETS), dataset("text", "wiki"))
    kube.seed(NODE_CACHES, *(_node(number) for number in range(NODES)))
    owner = {names.LABEL_TRAINING_JOB: "resnet"}
    why = "3 of 4 nodes are warm: imagenet is missing on gpu-11"
    for pod in (held("resnet-3", reason=why, labels=owner), held("notebook", reason=HOSTILE)):
        pod["metadata"]["annotations"][names.ANNOTATION_HELD_SINCE] = _ago(seconds=95)
        kube.seed(PODS, pod)
    kube.seed(TRAINING_JOBS, _job())
    kube.seed(POD_FIGURES, *(_figures(number) for number in range(3)))
    event = {"metadata": {"namespace": "vision", "name": "e"}, "reason": "Held", "message": "waits for imagenet"}
    kube.seed(EVENTS, event | {"involvedObject": {"uid": kube.objects(PODS)[0]["metadata"]["uid"]}})
    return kube


def _ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="seconds")


def _dataset(name: str, percent: int, size: int) -> Object:
    wanted = size * GIB * NODES
    warm = percent == 100
    message = f"{percent} % of the bytes are on {NODES} nodes"
    status: dict[str, Any] = {
        "phase": "Ready" if warm else "Warming",
        "bytes": size * GIB,
        "files": size * 9_000,
        "total": format_bytes(size * GIB),
        "version": "5e" * 32,
        "versionShort": "5e" * 6,
        "wantedBytes": wanted,
        "cachedBytes": wanted * percent // 100,
        "cachedPercent": f"{percent}%",
        "warmNodes": f"{NODES if warm else 0}/{NODES}",
        "conditions": [condition("Warm", str(warm), message, reason="AllNodesWarm" if warm else "Warming")],
        "nodes": [_row(f"gpu-{number:02}", percent, size) for number in range(NODES)],
    }
    fetching: dict[str, Any] = {"speed": "1.9 GiB/s", "bytesPerSecond": 2 * GIB, "eta": "12m"}
    return dataset("vision", name, **status | ({} if warm else fetching))


def _row(name: str, percent: int, size: int) -> dict[str, Any]:
    return {"name": name, "phase": _phase(percent), "warmBytes": size * GIB * percent // 100, "mode": "native"}


def _phase(percent: int) -> str:
    return "Warm" if percent == 100 else "Warming"


def _node(number: int) -> Object:
    rows = [_held(name, percent, size, number) for name, percent, size in _SETS]
    origin = {"name": "s3://bucket", "fetching": True, "bytesPerSecond": 170 << 20, "milliRequestsPerSecond": 21_500}
    used = sum(row["warmBytes"] for row in rows)
    status = {"datasets": rows, "origins": [origin], "usedBytes": used, "capacityBytes": 3_500 * GIB}
    if number == NODES - 1:
        message = "the disk of /var/lib/stoker/cache has 9 % free, and its floor is 16 %"
        status["conditions"] = [condition("Ready", "False", message, reason="DiskFloor")]
    return node(f"gpu-{number:02}", **status, **_READY)


def _held(name: str, percent: int, size: int, number: int) -> dict[str, Any]:
    percent = min(100, percent + 3 * number) if percent < 100 else percent
    total, warm = size * GIB, size * GIB * percent // 100
    row = {"namespace": "vision", "name": name, "uid": name, "phase": _phase(percent), "bytes": total}
    if name == "coco" and number == 4:
        error = {"reason": "ChecksumMismatch", "message": HOSTILE}
        return row | {"phase": "Failed", "warmBytes": 0, "error": error}
    return row | {"warmBytes": warm, "sourceBytes": warm // 12, "peerBytes": warm - warm // 12}


def _job() -> Object:
    training = {
        "phase": "Training",
        "currentEpoch": "12/90",
        "stall": "3%",
        "stallSource": "report",
        "meanLoss": "1.42",
    }
    goodput: dict[str, Any] = {"pods": 1, "measured": {"warm": 1, "stall": 1}, "heldSeconds": 41}
    goodput |= {"dataBytes": 138 * GIB, "warmBytes": 130 * GIB, "watchedSeconds": 4000, "stalledSeconds": 120}
    order = condition("Order", "True", "reads match the seed", reason="OrderKnown")
    return job("resnet", workers="3/4", data="94%", training=training, goodput=goodput, conditions=[order])


def _figures(number: int) -> Object:
    pod = f"resnet-{number}"
    workload = {
        "pod": f"vision/{pod}",
        "phase": "Training",
        "epoch": 11,
        "epochs": 90,
        "itemsPerSecond": 1834.5 - number,
        "stallPercent": 3 + number,
        "datasets": ["vision/imagenet"],
        "job": "resnet",
    }
    return {"metadata": {"namespace": "vision", "name": pod}, "node": f"gpu-{number:02}", "workload": workload}
