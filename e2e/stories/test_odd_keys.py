"""Keys that cannot be file names are left out, counted by reason, and never hidden; the rest of the Dataset works."""

from pathlib import Path

from e2e.support import manifests
from e2e.support.oddstore import any_key_store
from e2e.support.world import Home, World, condition

CONCATENATE = 'cd /data && find . -type f | sort | while read -r file; do cat "$file"; done'
PORT = 7481  # beside the cluster's own S3 server
GOOD = {"good/file.bin": b"good", "mit Leerzeichen/größe & mehr+?.bin": b"x" * 10}
ODD = {
    "a//b": "EmptySegment",
    "a/./b": "DotSegment",
    "x/../y": "DotSegment",
    "both": "FileAndFolder",
    "l" * 256: "SegmentTooLong",
    "filled/": "FolderWithContent",
}


def test_keys_that_cannot_be_files_are_counted_and_the_others_are_served(
    world: World, home: Home, tmp_path: Path
) -> None:
    objects = GOOD | {"both/inner": b"inner"} | dict.fromkeys(ODD, b"odd")
    address = str(world.cluster.slot.host_address)
    with any_key_store(address, PORT, "odd-keys", objects, tmp_path / "store.log") as url:
        home.dataset("odd", "odd-keys", source={"endpoint": url})
        ready = home.ready("odd")
        assert ready["status"]["files"] == len(GOOD) + 1
        counted = {row["reason"]: row["count"] for row in ready["status"]["skipped"]}
        assert counted == {reason: list(ODD.values()).count(reason) for reason in ODD.values()}
        assert "6 keys cannot be files" in condition(ready, "Listed", "message")
        assert world.wait_event("odd", home.namespace, "SkippedKeys")
        world.apply(manifests.pod(home.namespace, "reader", "odd:/data", CONCATENATE))
        world.finished("reader", home.namespace)
        assert world.logs("reader", home.namespace) == "inner" + "good" + "x" * 10
