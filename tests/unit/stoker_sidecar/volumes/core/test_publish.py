"""The handling of a volume request, decided without a node."""

from stoker_api.datasets.dataset import MountMode
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import ListingResult, NodeError, OlderVersionStatus
from stoker_api.node_caches.node_storage import MountPhase
from stoker_sidecar.errors import VolumeCode
from stoker_sidecar.volumes.core.publish import (
    Bind,
    Refuse,
    Wait,
    decide,
    may_mount,
    mounted_row,
    pending_row,
    published,
    report,
    version_to_keep,
)
from tests.fakes.volumes import DIGEST, UID, FakeVersions, dataset_status, node_dataset, publish_request
from tests.support.cases import cases

ON_DISK = FakeVersions().add(complete=False)
WHOLE = FakeVersions().add(complete=True)


def test_a_dataset_that_the_node_was_not_given_is_waited_for_with_the_command_that_checks_it() -> None:
    decision = decide(publish_request(), None, None, None, kept=True)
    assert isinstance(decision, Wait)
    assert "kubectl get dataset imagenet -n vision" in decision.reason


def test_a_version_whose_manifest_is_here_is_bound() -> None:
    assert decide(publish_request(), node_dataset(), None, ON_DISK, kept=True) == Bind(UID, DIGEST, ON_DISK)


def test_a_version_that_the_fetcher_may_be_dropping_is_waited_for() -> None:
    decision = decide(publish_request(), node_dataset(), None, WHOLE, kept=False)
    assert isinstance(decision, Wait)
    assert "has not confirmed yet that it keeps version" in decision.reason


def test_what_a_pod_may_not_mount_is_not_kept_for_it() -> None:
    namespaces = ("vision", "stranger")
    kept = [version_to_keep(publish_request(pod_namespace=one), node_dataset()) for one in namespaces]
    assert kept == [(UID, DIGEST), None]


def test_what_its_class_refuses_is_not_mounted_and_says_why() -> None:
    closed = node_dataset().model_copy(update={"refused": "source.endpoint is not allowed"})
    decision = decide(publish_request(), closed, None, WHOLE, kept=True)
    assert isinstance(decision, Refuse)
    assert (decision.code, decision.reason[-30:]) == (VolumeCode.PERMISSION_DENIED, "source.endpoint is not allowed")
    assert version_to_keep(publish_request(), closed) is None


def test_a_manifest_that_is_not_here_yet_is_waited_for() -> None:
    decision = decide(publish_request(), node_dataset(), None, None, kept=True)
    assert isinstance(decision, Wait)
    assert DIGEST[:12] in decision.reason


def test_the_wait_for_a_manifest_tells_the_nodes_error() -> None:
    status = dataset_status(error=NodeError(reason=Reason.MANIFEST_UNAVAILABLE, message="No node gave it."))
    decision = decide(publish_request(), node_dataset(), status, None, kept=True)
    assert isinstance(decision, Wait)
    assert decision.reason.endswith("No node gave it.")


def test_the_wait_for_a_version_tells_why_the_listing_failed() -> None:
    error = NodeError(reason=Reason.BUCKET_NOT_FOUND, message="There is no bucket b.")
    status = dataset_status(listing=ListingResult(id="1", error=error))
    decision = decide(publish_request(), node_dataset(version=""), status, None, kept=True)
    assert isinstance(decision, Wait)
    assert decision.reason.endswith("There is no bucket b.")


def test_the_wait_for_a_version_tells_the_nodes_error_when_there_was_no_listing() -> None:
    status = dataset_status(error=NodeError(reason=Reason.SECRET_NOT_FOUND, message="There is no Secret s."))
    decision = decide(publish_request(), node_dataset(version=""), status, None, kept=True)
    assert isinstance(decision, Wait)
    assert decision.reason.endswith("There is no Secret s.")


def test_a_namespace_without_a_grant_is_refused_even_while_there_is_no_version() -> None:
    decision = decide(publish_request(pod_namespace="other"), node_dataset(version=""), None, None, kept=True)
    assert isinstance(decision, Refuse)
    assert decision.code is VolumeCode.PERMISSION_DENIED
    assert "spec.access.namespaces" in decision.reason


def test_a_refusal_does_not_tell_whom_else_the_dataset_admits() -> None:
    granted = node_dataset(allowed_namespaces=("secret-project",))
    decision = decide(publish_request(pod_namespace="other"), granted, None, None, kept=True)
    assert isinstance(decision, Refuse)
    assert "secret-project" not in decision.reason


@cases(
    "namespace, allowed, expected",
    ("vision", (), True),
    ("research-a", ("research-*",), True),
    ("Research-a", ("research-*",), False),
    ("research", ("research-*",), False),
    ("research-a", (), False),
    ("a", ("b", "a"), True),
)
def test_access_is_by_namespace_or_pattern(namespace: str, allowed: tuple[str, ...], expected: bool) -> None:
    assert may_mount(namespace, node_dataset(allowed_namespaces=allowed)) is expected


@cases(
    "mode, fuse, overlay",
    (MountMode.NATIVE, False, False),
    (MountMode.FUSE, True, False),
    (MountMode.OVERLAY, True, True),
)
def test_a_record_tells_what_its_mode_needs(mode: MountMode, fuse: bool, overlay: bool) -> None:
    record = published(publish_request(), Bind(UID, DIGEST, ON_DISK), mode)
    assert (record.mode, record.fuse, record.overlay) == (mode, fuse, overlay)


def test_a_mounted_row_names_pod_version_and_mode() -> None:
    row = mounted_row(published(publish_request(), Bind(UID, DIGEST, WHOLE), MountMode.NATIVE))
    assert (row.phase, row.version, row.mode, row.pod_uid) == (
        MountPhase.MOUNTED,
        DIGEST,
        MountMode.NATIVE,
        "uid-trainer-0",
    )


def test_rows_of_two_pods_with_one_persistent_volume_have_different_ids() -> None:
    rows = [pending_row(publish_request(pod, volume_id="vision/imagenet", ephemeral=False)) for pod in ("a", "b")]
    assert rows[0].volume_id != rows[1].volume_id


def test_a_dead_mount_is_reported_as_trouble() -> None:
    record = published(publish_request(), Bind(UID, DIGEST, ON_DISK), MountMode.FUSE)
    assert "does not answer" in report(record, True, None).trouble


def test_a_store_that_fails_is_trouble_for_fuse_and_none_for_native() -> None:
    status = dataset_status(error=NodeError(reason=Reason.SERVER_ERROR, message="The store is down."))
    troubles = [
        report(published(publish_request(), Bind(UID, DIGEST, ON_DISK), mode), False, status).trouble
        for mode in (MountMode.FUSE, MountMode.NATIVE)
    ]
    assert troubles == ["The store is down.", ""]


NAMED = "9" * 64


def test_a_volume_that_names_a_version_gets_that_one() -> None:
    request = publish_request(version=NAMED)
    assert version_to_keep(request, node_dataset()) == (UID, NAMED)
    assert decide(request, node_dataset(), None, ON_DISK, kept=True) == Bind(UID, NAMED, ON_DISK)
    assert pending_row(request).version == NAMED


def test_the_wait_for_a_named_version_tells_why_it_is_not_here() -> None:
    error = NodeError(reason=Reason.MANIFEST_UNAVAILABLE, message="No node gave it.")
    status = dataset_status(older=(OlderVersionStatus(version=NAMED, error=error),))
    told = [decide(publish_request(version=NAMED), node_dataset(), one, None, kept=True) for one in (status, None)]
    assert [one.reason.rpartition("yet")[2] for one in told if isinstance(one, Wait)] == [
        ": No node gave it.",
        "; if this persists, no node has that version: recreate the pod without naming it",
    ]
