"""The keys of a Dataset become invalid during cold reads: users see it, the store gets few requests, it recovers."""

import json
import time

from e2e.cluster.processes import wait_for
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.counting_proxy import CountingProxy, counting_proxy
from e2e.support.world import PATIENCE, Home, World, condition
from stoker_api.times import parse_time

# Two files a second, folder by folder: prefetches come from the same folder.
COMMAND = (
    "cd /data; while true; do for f in */*; do"
    " if cat $f > /dev/null 2>&1; then echo ok $f; else echo failed $f $(date +%s); fi; sleep 0.5; done; done"
)

# Seconds from the first failing read to its report.
REPORTED = 10.0


def use_secret(home: Home, proxy: CountingProxy, secret: str) -> None:
    """Apply the Dataset with the keys of this Secret."""
    source = {"endpoint": proxy.endpoint, "credentials": {"secretRef": {"name": secret}}}
    home.dataset("cold", f"{home.namespace}", source=source, warm={"policy": "Manual"})


def reads(world: World, home: Home, word: str) -> list[str]:
    return [line for line in world.logs("reader", home.namespace).splitlines() if line.startswith(word)]


def why(world: World, home: Home) -> str:
    return " ".join(world.stoker("why", "reader", "-n", home.namespace).split())


def event_seconds(world: World, home: Home, text: str) -> float:
    """Return the time of the first event of the reader with this text, in seconds since 1970."""
    found = json.loads(world.kubectl("get", "events", "-n", home.namespace, "-o", "json"))["items"]
    about = [one for one in found if one["involvedObject"]["name"] == "reader" and text in one["message"]]
    return min(parse_time(one.get("firstTimestamp") or one["eventTime"]) for one in about)


def test_reads_that_fail_are_told_everywhere_and_cost_the_store_little(world: World, home: Home) -> None:
    home.bucket().put(files(400, 1000))
    server = world.cluster.s3
    world.apply(manifests.secret(home.namespace, server.access_key, "wrong", name="bad-keys"))
    with counting_proxy(server.endpoint) as proxy:
        use_secret(home, proxy, manifests.SECRET)
        home.until("cold", lambda it: it.get("status", {}).get("files") == 400)
        world.apply(manifests.pod(home.namespace, "reader", "cold:/data", COMMAND, scheduling="None"))
        world.wait("pod", "reader", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
        wait_for("a file that is read", lambda: bool(reads(world, home, "ok")), PATIENCE)

        use_secret(home, proxy, "bad-keys")
        wait_for("a read that fails", lambda: bool(reads(world, home, "failed")), PATIENCE)
        first = float(reads(world, home, "failed")[0].split()[-1])
        line = f"Its reads of the Dataset {home.namespace}/cold fail since"
        wait_for("the failure in stoker why", lambda: line in why(world, home), first + REPORTED - time.time())
        found = home.until("cold", lambda it: condition(it, "Degraded", "reason") == "InvalidCredentials")
        assert condition(found, "Degraded") == "True"
        assert parse_time(condition(found, "Degraded", "lastTransitionTime")) - first <= REPORTED
        assert "reads of pods fail since" in condition(found, "Degraded", "message")
        event = world.wait_event("reader", home.namespace, "its reads of")
        assert event.startswith("InvalidCredentials: ")
        assert event_seconds(world, home, "its reads of") - first <= REPORTED

        began = time.monotonic()
        before = len(reads(world, home, "failed"))
        wait_for("twenty more reads that fail", lambda: len(reads(world, home, "failed")) >= before + 20, PATIENCE)
        seconds = time.monotonic() - began
        assert len([at for at in proxy.refused() if at >= began]) <= 1 + seconds

        world.apply(manifests.secret(home.namespace, server.access_key, server.secret_key, name="bad-keys"))
        healthy = home.until("cold", lambda it: condition(it, "Degraded") == "False")
        assert condition(healthy, "Degraded", "reason") == "Healthy"
        last = len(reads(world, home, "failed"))
        ok = len(reads(world, home, "ok"))
        wait_for("ten more files that are read", lambda: len(reads(world, home, "ok")) >= ok + 10, PATIENCE)
        assert len(reads(world, home, "failed")) == last
