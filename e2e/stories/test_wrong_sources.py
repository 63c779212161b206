"""Errors of a source have a message in a condition. Repaired ones are noticed without help."""

from typing import Any

import pytest

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World, condition

# Dataset: its spec, and the reason and the words of the condition.
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no-secret": ({"source": {"credentials": {"secretRef": {"name": "nowhere"}}}}, "SecretNotFound", "nowhere"),
    "half-a-secret": (
        {"source": {"credentials": {"secretRef": {"name": "half"}}}},
        "SecretKeyMissing",
        "AWS_SECRET_ACCESS_KEY",
    ),
    "wrong-keys": (
        {"source": {"credentials": {"secretRef": {"name": "wrong"}}}},
        "InvalidCredentials",
        "AWS_SECRET_ACCESS_KEY",
    ),
    "no-bucket": ({"source": {"uri": "s3://no-such-bucket-here/"}}, "BucketNotFound", "no-such-bucket-here"),
    "no-prefix": ({"prefix": "dat/"}, "EmptySource", "dat/"),
    "no-match": ({"source": {"include": ["**/*.jpeg"]}}, "NoMatch", "7 objects"),
    "small-quota": ({"cache": {"quota": "1Ki"}}, "QuotaTooSmall", "1.0 KiB"),
}


@pytest.fixture(scope="module")
def home(world: World, shared_home: Home) -> Home:
    """Make all wrong Datasets, so that their nodes find the errors at the same time."""
    bucket, server = shared_home.bucket(), world.cluster.s3
    bucket.put(files(7, 5000, "data/"))
    half = manifests.secret(shared_home.namespace, "id", "", name="half")
    del half["stringData"]["AWS_SECRET_ACCESS_KEY"]
    wrong = (
        manifests.secret(shared_home.namespace, server.access_key, "wrong", name=name) for name in ("wrong", "keys")
    )
    world.apply(half, *wrong)
    for name, (spec, _, _) in WRONG.items():
        shared_home.dataset(name, bucket, **spec)
    shared_home.dataset("mended", bucket, source={"credentials": {"secretRef": {"name": "keys"}}})
    shared_home.dataset("returns", bucket, source={"endpoint": down(world)})
    return shared_home


def down(world: World) -> str:
    """Return an endpoint without a server."""
    return world.cluster.s3.endpoint.rpartition(":")[0] + ":9"


def problem(home: Home, name: str, reason: str) -> str:
    """Wait for a condition with this reason on a Dataset, and return its message."""

    def message(item: manifests.Object) -> str:
        conditions = item.get("status", {}).get("conditions", [])
        return next((str(entry["message"]) for entry in conditions if entry["reason"] == reason), "")

    return message(home.until(name, message))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_source_is_told_with_what_is_wrong(home: Home, name: str) -> None:
    _, reason, words = WRONG[name]
    assert words in problem(home, name, reason)


def test_credentials_that_are_mended_are_taken_up_without_help(world: World, home: Home) -> None:
    problem(home, "mended", "InvalidCredentials")
    server = world.cluster.s3
    world.apply(manifests.secret(home.namespace, server.access_key, server.secret_key, name="keys"))
    home.ready("mended")


def test_an_endpoint_that_is_down_is_named_and_its_return_is_noticed(world: World, home: Home) -> None:
    assert down(world) in problem(home, "returns", "EndpointUnreachable")
    home.dataset("returns", home.bucket())
    assert condition(home.ready("returns"), "Degraded") in ("", "False")
