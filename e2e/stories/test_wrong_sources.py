"""What is wrong with a source is said in a sentence: by the API server where it can know, else in a condition."""

from typing import Any

import pytest

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World, condition

ENDPOINT = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        (
            "gs://bucket/data/",
            "source.uri gs://bucket/data/ is not supported: write s3://bucket/prefix/ or file:///folder",
        ),
        ("s3://Bad_Bucket/data/", "the bucket in source.uri must have 3 to 63 characters"),
        ("s3://ab", "the bucket in source.uri must have 3 to 63 characters"),
        ("/data", "source.uri /data is not supported"),
    ],
)
def test_the_api_server_refuses_a_source_that_no_one_could_read(
    world: World, shared_home: Home, uri: str, sentence: str
) -> None:
    assert sentence in world.refused(manifests.dataset(shared_home.namespace, "wrong", uri, ENDPOINT))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"cache": {"replicas": -1}}, "cache.replicas must be 0 to 10000, or 'all'"),
        ({"cache": {"quota": "lots"}}, "spec.cache.quota"),
        ({"refresh": {"interval": "1s"}}, "refresh.interval must be 10s or more"),
        (
            {"source": {"credentials": {"serviceAccount": "a"}}},
            "credentials takes secretRef or serviceAccount, not both",
        ),
    ],
)
def test_the_api_server_refuses_values_that_make_no_sense(
    world: World, shared_home: Home, spec: dict[str, Any], sentence: str
) -> None:
    item = manifests.dataset(shared_home.namespace, "wrong", "s3://bucket/", ENDPOINT, **spec)
    assert sentence in world.refused(item)


def problem(home: Home, reason: str) -> str:
    """Wait for a condition with this reason on the Dataset `wrong`, and return its message."""

    def message(item: manifests.Object) -> str:
        return next(
            (entry["message"] for entry in item.get("status", {}).get("conditions", []) if entry["reason"] == reason),
            "",
        )

    return message(home.until("wrong", message))


def test_a_missing_secret_is_named(home: Home) -> None:
    home.dataset("wrong", "some-bucket", source={"credentials": {"secretRef": {"name": "nowhere"}}})
    assert f"{home.namespace}/nowhere" in problem(home, "SecretNotFound")


def test_a_secret_without_a_key_names_the_key(world: World, home: Home) -> None:
    half = manifests.secret(home.namespace, "id", "", name="half")
    del half["stringData"]["AWS_SECRET_ACCESS_KEY"]
    world.apply(half)
    home.dataset("wrong", "some-bucket", source={"credentials": {"secretRef": {"name": "half"}}})
    assert "AWS_SECRET_ACCESS_KEY" in problem(home, "SecretKeyMissing")


def test_wrong_credentials_are_told_from_a_missing_bucket(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(1, 10))
    world.apply(manifests.secret(home.namespace, world.cluster.s3.access_key, "wrong", name="wrong-keys"))
    home.dataset("wrong", bucket, source={"credentials": {"secretRef": {"name": "wrong-keys"}}})
    assert "half/" not in problem(home, "InvalidCredentials")


def test_credentials_that_are_mended_are_taken_up_without_help(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(3, 10))
    world.apply(manifests.secret(home.namespace, world.cluster.s3.access_key, "wrong", name="keys"))
    home.dataset("wrong", bucket, source={"credentials": {"secretRef": {"name": "keys"}}})
    problem(home, "InvalidCredentials")
    world.apply(manifests.secret(home.namespace, world.cluster.s3.access_key, world.cluster.s3.secret_key, name="keys"))
    home.ready("wrong")


def test_a_bucket_that_does_not_exist_is_named(home: Home) -> None:
    home.dataset("wrong", "no-such-bucket-here")
    assert "no-such-bucket-here" in problem(home, "BucketNotFound")


def test_an_empty_prefix_is_an_error_and_not_an_empty_dataset(home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(1, 10, "data/"))
    home.dataset("wrong", bucket, "dat/")
    assert "dat/" in problem(home, "EmptySource")


def test_patterns_that_match_nothing_say_how_many_objects_there_are(home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(7, 10))
    home.dataset("wrong", bucket, source={"include": ["**/*.jpeg"]})
    assert "7 objects" in problem(home, "NoMatch")


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254"])
def test_an_endpoint_at_the_nodes_own_addresses_is_not_asked(home: Home, host: str) -> None:
    home.dataset("wrong", "some-bucket", source={"endpoint": f"http://{host}:9"})
    assert "sidecar.endpoints.allow" in problem(home, "EndpointNotAllowed")


def test_an_endpoint_that_is_down_is_named_and_its_return_is_noticed(world: World, home: Home) -> None:
    down = world.cluster.s3.endpoint.rpartition(":")[0] + ":9"
    home.dataset("wrong", "some-bucket", source={"endpoint": down})
    assert down in problem(home, "EndpointUnreachable")
    bucket = home.bucket()
    bucket.put(files(3, 10))
    home.dataset("wrong", bucket)
    ready = home.ready("wrong")
    assert condition(ready, "Degraded") in ("", "False")


def test_a_quota_smaller_than_every_file_says_so(home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(3, 5000))
    home.dataset("wrong", bucket, cache={"quota": "1Ki"})
    sentence = problem(home, "QuotaTooSmall")
    assert "1.0 KiB" in sentence or "1Ki" in sentence
