"""Attacks by a tenant with edit rights in one namespace: refused with a message, or without effect on other tenants.

All the time, a canary of another namespace makes a Dataset and a pod that needs it warm. No round may fail. The round
after the last attack, while the objects of all attacks still exist, must end within 20 seconds. With
``STOKER_E2E_STRICT=1``, on a dedicated machine, this holds for all rounds.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import CommandFailedError
from e2e.support import manifests
from e2e.support.tenant import Canary, Tenant, eventually
from e2e.support.world import PATIENTLY, Home, World

CROWD = int(os.environ.get("STOKER_E2E_CROWD", "60"))  # Datasets; 300 on a dedicated machine
CONTAINER = {"name": "c", "image": "x"}


@pytest.fixture(autouse=True)
def trainer_lives(victim: Home, canary_lives: None) -> Iterator[None]:
    """Check after each attack that the victim's pod is unaffected."""
    yield
    trainer = victim.world.get("pod", "trainer", victim.namespace)
    assert trainer["status"]["phase"] == "Running"
    assert all(one["restartCount"] == 0 for one in trainer["status"]["containerStatuses"])


@pytest.fixture(scope="module")
def canary_lives(canary: Canary) -> Iterator[None]:
    """Check that no round of the canary fails, and that the first one after the last attack is not slow."""
    canary.next_round()
    yield
    canary.check()  # the objects of all attacks still exist
    assert [one.trouble for one in canary.rounds if one.trouble] == []


def wrong(tenant: Tenant, name: str, words: str, **spec: Any) -> None:
    """Apply an accepted Dataset of the tenant, and wait for the message."""
    tenant.create(tenant.dataset(name, **spec))
    tenant.told("dataset", name, words)


# Files of the node and of other tenants.


@pytest.mark.parametrize(
    "folder",
    [
        "/var/lib/stoker/cache/datasets",
        "/var/lib/stoker/mnt",
        "/proc/self/fd",
        "/etc",
        "/run/stoker",
        "/var/lib/kubelet/pods",
    ],
)
def test_a_file_source_reads_no_folder_that_was_not_granted(tenant: Tenant, folder: str) -> None:
    name = f"folder-{folder.strip('/').replace('/', '-')}"
    wrong(tenant, name, "hostFolders", source={"uri": f"file://{folder}/"})


def test_a_file_source_cannot_climb(tenant: Tenant) -> None:
    assert "must not contain '..'" in tenant.refused(tenant.dataset("climb", source={"uri": "file:///mnt/../etc/"}))


def test_no_secret_of_another_namespace_can_be_named(tenant: Tenant, victim: Home) -> None:
    source = {"uri": "s3://b-b-b/", "credentials": {"secretRef": {"name": f"{victim.namespace}/s3-keys"}}}
    assert "secretRef.name" in tenant.refused(tenant.dataset("secret", source=source))


def test_a_dataset_without_credentials_has_none(tenant: Tenant, victim: Home) -> None:
    source = {"uri": f"s3://{victim.namespace}/", "endpoint": victim.world.cluster.s3.endpoint}
    wrong(tenant, "ambient", "AccessDenied", source=source)


def test_a_pod_may_not_name_another_namespaces_dataset(tenant: Tenant, victim: Home) -> None:
    sentence = tenant.refused(tenant.pod("thief", f"{victim.namespace}/private:/data"))
    assert "spec.access.namespaces" in sentence


def test_a_hand_made_volume_neither_reads_nor_keeps_a_dataset(tenant: Tenant, victim: Home, world: World) -> None:
    victim.dataset("short-lived", victim.bucket(), cache={"replicas": "all"})
    victim.ready("short-lived")
    pod = tenant.pod("raw", "")
    attributes = {"dataset": "short-lived", "datasetNamespace": victim.namespace}
    csi = {"driver": "csi.stoker.dev", "readOnly": True, "volumeAttributes": attributes}
    pod["spec"]["volumes"] = [{"name": "data", "csi": csi}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    tenant.create(pod)
    assert "does not admit" in world.wait_event("raw", tenant.namespace, "FailedMount")
    world.kubectl("delete", "dataset", "short-lived", "-n", victim.namespace, "--wait", PATIENTLY)


def test_nobody_but_a_nodes_own_sidecar_writes_what_a_node_says(tenant: Tenant, world: World) -> None:
    node = world.items("nodecaches")[0]["metadata"]["name"]
    patch = json.dumps({"status": {"mounts": []}})
    with pytest.raises(CommandFailedError, match="orbidden"):
        tenant.kubectl("patch", "nodecache", node, "--subresource=status", "--type=merge", "-p", patch)


def test_a_status_of_ones_own_dataset_cannot_be_forged(tenant: Tenant) -> None:
    tenant.create(tenant.dataset("forged", source={"uri": "s3://no-such-bucket/"}))
    patch = json.dumps({"status": {"phase": "Ready"}})
    with pytest.raises(CommandFailedError, match="orbidden"):
        tenant.kubectl(
            "patch", "dataset", "forged", "-n", tenant.namespace, "--subresource=status", "--type=merge", "-p", patch
        )


def test_whoever_reaches_the_webhook_learns_no_names(victim: Home, world: World) -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"annotations": {"stoker.dev/datasets": "privat:/data"}},
        "spec": {"containers": [CONTAINER]},
    }
    review = json.dumps({"request": {"uid": "1", "namespace": victim.namespace, "object": pod}})
    for replica in world.system_pods("operator"):
        assert "private" not in answer(f"https://{replica['status']['podIP']}:9443/mutate", "--json", review)


def test_a_neighbours_file_list_is_given_to_nobody(victim: Home, world: World) -> None:
    dataset = world.get("dataset", "private", victim.namespace)
    path = f"manifests/{dataset['metadata']['uid']}/{dataset['status']['version']}"
    for sidecar in world.system_pods("sidecar"):
        (container,) = sidecar["spec"]["containers"]
        for port in container["ports"]:
            for scheme in ("http", "https"):
                told = answer(f"{scheme}://{sidecar['status']['podIP']}:{port['containerPort']}/{path}")
                assert told[-3:] in ("000", "400", "401", "403", "404"), told[:100]


def answer(url: str, *words: str) -> str:
    """Return a server's answer to a client in the pods' network, with the status last. 000: no connection."""
    command = ["curl", "-sk", "--max-time", "5", "-w", "%{http_code}", *words, url]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


# Addresses that the node could reach and the tenant could not.


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "169.254.169.254", "[::1]:8081", "[fd00:ec2::254]"])
def test_an_endpoint_at_the_nodes_own_addresses_is_not_asked(tenant: Tenant, host: str) -> None:
    name = "endpoint-" + "".join(character if character.isalnum() else "-" for character in host).strip("-")
    wrong(tenant, name, "EndpointNotAllowed", source={"uri": "s3://bucket/", "endpoint": f"http://{host}"})


def test_an_endpoint_cannot_send_the_node_elsewhere(tenant: Tenant, store: str) -> None:
    tenant.create(tenant.dataset("redirect", source={"uri": "s3://redirect/", "endpoint": store}))
    tenant.told("dataset", "redirect", "redirect")


# Odd objects.


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"cache": {"quota": "10000P"}}, "quota"),
        ({"cache": {"replicas": 9_000_000_000_000_000_000}}, "replicas"),
        ({"source": {"include": [f"{index}" for index in range(1000)]}}, "include"),
        ({"source": {"include": ["a" * 100_000]}}, "include"),
        ({"scheduling": {"maxWait": "99999999h"}}, "maxWait"),
        ({"source": {"endpoint": "http://a b"}}, "endpoint"),
        ({"source": {"region": "x" * 1000}}, "region"),
    ],
    ids=["quota", "replicas", "many patterns", "long pattern", "maxWait", "endpoint", "region"],
)
def test_numbers_and_texts_without_measure_are_refused_at_the_door(tenant: Tenant, spec: Any, words: str) -> None:
    odd = manifests.merged(tenant.dataset("measure", source={"uri": "s3://bucket/"}), {"spec": spec})
    assert words in tenant.refused(odd)


def test_characters_beyond_the_basic_plane_harm_nobody(tenant: Tenant, store: str) -> None:
    source = {"uri": "s3://nothing/\U0001f600/", "include": ["\U0001f600*"], "endpoint": store}
    wrong(tenant, "emoji", "BucketNotFound", source=source)


@pytest.mark.parametrize(
    "template",
    [
        {"spec": {"containers": [CONTAINER | {"env": {"A": "b"}}]}},
        {"metadata": {"labels": ["x"]}, "spec": {"containers": [CONTAINER]}},
        {"spec": {"containers": [CONTAINER], "initContainers": {"a": 1}}},
    ],
    ids=["env", "labels", "initContainers"],
)
def test_a_training_job_of_another_shape_is_told_so(
    tenant: Tenant, template: Any, request: pytest.FixtureRequest
) -> None:
    name = f"odd-{request.node.callspec.id.lower()}"
    tenant.create(tenant.training_job(name, template))
    tenant.told("trainingjob", name, "InvalidSpec")


def test_a_training_job_nested_without_end_harms_nobody(tenant: Tenant, world: World) -> None:
    text = json.dumps(tenant.training_job("nested", {"spec": {"containers": [CONTAINER | {"odd": "MARK"}]}}))
    nested = text.replace('"MARK"', "[" * 4000 + "1" + "]" * 4000)
    tenant.kubectl("create", "--validate=false", "-f", "-", stdin=nested)
    path = "jsonpath={.status.conditions[?(@.type=='Accepted')].reason}"
    get = ("get", "trainingjob", "nested", "-n", tenant.namespace, "-o", path)
    eventually(lambda: world.kubectl(*get) == "InvalidSpec", "the condition of the nested TrainingJob")


@pytest.mark.parametrize(
    ("datasets", "annotations", "words"),
    [
        (",".join(f"a:/{index}" for index in range(20_000)), {}, "32768 are allowed"),
        (",".join(f"a:/{index}" for index in range(21)), {}, "20"),
        ("x:/data", {"max_wait": "99999999h"}, "max-wait"),
        ("x:/../etc", {}, "/../etc"),
        ("x:/data," * 5, {}, "/data"),
        ("\U0001f600:/data", {}, "stoker.dev/datasets"),
    ],
    ids=["20,000 entries", "21 entries", "max-wait", "path", "twice", "emoji"],
)
def test_an_annotation_without_measure_is_refused(
    tenant: Tenant, datasets: str, annotations: dict[str, str], words: str
) -> None:
    assert words in tenant.refused(tenant.pod("annotated", datasets, **annotations))


# Malicious stores.


def test_what_a_store_shouts_is_cut(tenant: Tenant, store: str) -> None:
    tenant.create(tenant.dataset("shout", source={"uri": "s3://shout/", "endpoint": store}))
    told = tenant.told("dataset", "shout", "AccessDenied")
    assert len(json.dumps(told["status"])) < 20_000


@pytest.mark.parametrize("bucket", ["endless", "huge", "silent"])
def test_a_listing_without_end_is_the_tenants_own_trouble(tenant: Tenant, store: str, bucket: str) -> None:
    tenant.create(tenant.dataset(bucket, source={"uri": f"s3://{bucket}/", "endpoint": store}))
    tenant.told("dataset", bucket, "listing")


def test_patterns_that_would_backtrack_cost_nothing(tenant: Tenant, victim: Home) -> None:
    bucket = victim.bucket("-long")
    bucket.put({"a" * 200: b"x"})
    source = {
        "uri": f"s3://{bucket.name}/",
        "endpoint": victim.world.cluster.s3.endpoint,
        "include": ["*a*a*a*a*a*a*a*b"],
        "credentials": {"secretRef": {"name": manifests.SECRET}},
    }
    server = victim.world.cluster.s3
    tenant.create(manifests.secret(tenant.namespace, server.access_key, server.secret_key))
    wrong(tenant, "patterns", "NoMatch", source=source)


# Exhaustion of shared space and concurrency.


def test_a_forged_release_books_no_room(tenant: Tenant, world: World) -> None:
    node = world.items("nodes")[0]["metadata"]["name"]
    pod = tenant.pod("booker", "")
    pod["metadata"]["annotations"]["stoker.dev/released"] = json.dumps({"nodes": [node], "reason": "Released"})
    pod["metadata"]["labels"] = {"stoker.dev/managed": "true"}
    pod["spec"]["schedulingGates"] = [{"name": "evil.example/never"}]
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000", "memory": "1000Gi"}}
    tenant.create(pod)


def test_a_namespace_without_room_for_claims_is_its_own_trouble(tenant: Tenant, world: World) -> None:
    spec = {"hard": {"persistentvolumeclaims": "0"}}
    meta = {"name": "no-claims", "namespace": tenant.namespace}
    world.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec})
    tenant.create(tenant.dataset("no-claim", source={"uri": "s3://no-such-bucket/"}))
    tenant.told("dataset", "no-claim", "exceeded quota")
    world.kubectl("delete", "resourcequota", "no-claims", "-n", tenant.namespace)


def test_a_finalizer_of_another_keeps_only_its_own_object(tenant: Tenant, world: World) -> None:
    stuck = tenant.dataset("stuck", source={"uri": "s3://no-such-bucket/"})
    stuck["metadata"]["finalizers"] = ["evil.example/never"]
    tenant.create(stuck)
    tenant.kubectl("delete", "dataset", "stuck", "-n", tenant.namespace, "--wait=false")
    eventually(
        lambda: world.get("dataset", "stuck", tenant.namespace)["metadata"]["finalizers"] == ["evil.example/never"],
        "the end of Stoker's own finalizer",
    )
    patch = json.dumps({"metadata": {"finalizers": []}})
    tenant.kubectl("patch", "dataset", "stuck", "-n", tenant.namespace, "--type=merge", "-p", patch)


def test_a_crowd_of_datasets_delays_nobody(tenant: Tenant, store: str) -> None:
    crowd = [
        tenant.dataset(f"crowd-{index}", source={"uri": "s3://nothing/", "endpoint": store}) for index in range(CROWD)
    ]
    tenant.create(*crowd)


def test_a_namespace_that_ends_takes_nobody_with_it(tenant: Tenant, world: World, victim: Home) -> None:
    other = Tenant(world, f"{tenant.namespace}-ending")
    other.prepare()
    server = world.cluster.s3
    for name in ("one", "two"):
        world.apply(manifests.secret(other.namespace, server.access_key, server.secret_key, name=name))
        source = {
            "uri": f"s3://{victim.namespace}/",
            "endpoint": server.endpoint,
            "credentials": {"secretRef": {"name": name}},
        }
        other.create(other.dataset(name, source=source))
    world.wait("dataset", "two", other.namespace, lambda it: it.get("status", {}).get("phase") == "Ready")
    world.apply(manifests.pod(other.namespace, "reader", "two:/data", "sleep 600"))
    world.wait("pod", "reader", other.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    world.kubectl("delete", "namespace", other.namespace, "--wait=false")
    eventually(lambda: not world.get("namespace", other.namespace), "the end of the namespace")
