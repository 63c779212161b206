"""A compromised node sends peers forged bytes with the right CRC: they keep none of them, and only it is revoked."""

import hashlib
import json
import random
from collections.abc import Iterator

import pytest

from e2e.support.forgery import EVIL, forged
from e2e.support.tenant import Canary
from e2e.support.world import SYSTEM, Home, World, warm_rows

PIECE = 8 * 2**20
PART = 5 * 2**20
MODEL = "model.pt"
# Writes the forged bytes into the cached file, in place, and resets its date: size and date are right.
FORGE = """
import os, sys
path, evil, end = sys.argv[1], bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3])
dates = os.stat(path)
file = os.open(path, os.O_WRONLY)
os.pwrite(file, evil, 0)
os.pwrite(file, end, int(sys.argv[4]) - len(end))
os.close(file)
os.utime(path, ns=(dates.st_atime_ns, dates.st_mtime_ns))
"""


@pytest.fixture(autouse=True)
def canary_lives(canary: Canary) -> Iterator[None]:
    """Check afterwards that the canary is unaffected."""
    yield
    canary.check()


@pytest.fixture
def model(home: Home) -> bytes:
    """Upload a model in parts. Return its bytes."""
    body = random.Random(6).randbytes(3 * PIECE + 5)
    home.bucket().put_in_parts(MODEL, body, PART)
    return body


def in_sidecar(world: World, node: str, *command: str) -> str:
    pod = world.sidecar_of(node)["metadata"]["name"]
    return world.kubectl("exec", pod, "-n", SYSTEM, "-c", "sidecar", "--", *command)


def file_in_cache(world: World, node: str, uid: str) -> str:
    found = in_sidecar(world, node, "sh", "-c", f"ls /var/lib/stoker/cache/datasets/{uid}/versions/*/tree/{MODEL}")
    return found.strip()


def row_of(world: World, node: str, uid: str, part: str) -> dict[str, object]:
    rows = world.get("nodecache", node).get(part, {}).get("datasets", [])
    return next((row for row in rows if row["uid"] == uid), {})


def test_forged_pieces_are_kept_by_no_other_node_and_the_taken_one_is_revoked_alone(
    world: World, home: Home, model: bytes
) -> None:
    home.dataset("models", home.bucket(), cache={"replicas": 1})
    dataset = home.ready("models")
    uid = dataset["metadata"]["uid"]
    (taken,) = warm_rows(dataset)
    evil = forged(model[:PIECE])
    assert evil[: len(EVIL)] == EVIL != model[: len(EVIL)]
    path = file_in_cache(world, taken, uid)
    in_sidecar(world, taken, "python3", "-c", FORGE, path, EVIL.hex(), evil[-8:].hex(), str(PIECE))

    home.dataset("models", home.bucket(), cache={"replicas": 2})
    home.until("models", lambda it: len(warm_rows(it)) == 2)
    (other,) = set(warm_rows(home.ready("models"))) - {taken}
    assert row_of(world, other, uid, "status").get("peerBytes", 0) != 0  # the attack took place
    kept = in_sidecar(world, other, "sha256sum", file_in_cache(world, other, uid)).split()[0]
    assert kept == hashlib.sha256(model).hexdigest()

    try:
        world.kubectl("annotate", "nodecache", taken, "stoker.dev/peers=Off")
        world.wait("nodecache", taken, "", lambda it: not it["spec"].get("peer"))
        world.wait("nodecache", other, "", lambda it: taken not in json.dumps(it["spec"]))
    finally:
        world.kubectl("annotate", "nodecache", taken, "stoker.dev/peers-")
    world.wait("nodecache", taken, "", lambda it: it["spec"].get("peer"))
