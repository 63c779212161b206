"""Requests of the kubelet, parsed on entry."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.jobs.pod_hints import hint_attributes
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.csi.request import (
    MOST_ATTRIBUTES,
    is_report,
    parse_publish,
    parse_report,
    parse_stats,
    parse_unpublish,
)
from stoker_sidecar.errors import VolumeCode, VolumeError
from stoker_tuning.frameworks.pod_hints import NO_HINTS, FrameworkSource, PodHints
from tests.support.cases import cases
from tests.unit.stoker_sidecar.agent.builders import KUBELET, MODE, TARGET, capability, context_of, inline


def sentence(request: csi_pb2.NodePublishVolumeRequest) -> str:
    with pytest.raises(VolumeError) as caught:
        parse_publish(request, KUBELET)
    assert caught.value.code is VolumeCode.INVALID_ARGUMENT
    return caught.value.message


def test_an_inline_volume_takes_the_dataset_of_the_pods_own_namespace() -> None:
    request = parse_publish(inline(), KUBELET)
    assert (request.name, request.pod, request.ephemeral) == ("vision/imagenet", "trainer-0", True)


def test_datasetNamespace_names_the_dataset_and_not_the_pod() -> None:  # noqa: N802  # the attribute's spelling
    request = parse_publish(inline(volume_context=context_of(datasetNamespace="team-b")), KUBELET)
    assert (request.name, request.pod_namespace) == ("team-b/imagenet", "vision")


@pytest.mark.parametrize("mode", [MODE.MULTI_NODE_READER_ONLY, MODE.SINGLE_NODE_READER_ONLY])
def test_a_persistent_volume_may_be_read(mode: int) -> None:
    context = context_of(**{names.CSI_EPHEMERAL: "false"})
    request = parse_publish(inline(volume_capability=capability(mode), volume_context=context), KUBELET)
    assert not request.ephemeral


@pytest.mark.parametrize("mode", [MODE.SINGLE_NODE_WRITER, MODE.MULTI_NODE_SINGLE_WRITER, MODE.MULTI_NODE_MULTI_WRITER])
def test_a_persistent_volume_may_not_be_writable(mode: int) -> None:
    context = context_of(**{names.CSI_EPHEMERAL: None})
    message = sentence(inline(volume_capability=capability(mode), volume_context=context, readonly=False))
    assert MODE.Mode.Name(mode) in message
    assert "ReadOnlyMany" in message


def test_a_writer_mode_with_readonly_set_is_accepted() -> None:
    context = context_of(**{names.CSI_EPHEMERAL: None})
    assert parse_publish(inline(volume_context=context, readonly=True), KUBELET).dataset == "imagenet"


def test_a_block_device_is_refused() -> None:
    block = csi_pb2.VolumeCapability(block={}, access_mode={"mode": MODE.SINGLE_NODE_WRITER})
    assert "volumeMode: Filesystem" in sentence(inline(volume_capability=block))


def test_an_inline_volume_with_scratch_is_writable() -> None:
    request = inline(volume_context=context_of(scratch="1Gi"), readonly=False)
    assert parse_publish(request, KUBELET).scratch_bytes == 1024**3
    assert parse_publish(inline(), KUBELET).scratch_bytes == 0


@cases(
    "request_, part",
    read_only=(inline(volume_context=context_of(scratch="1Gi")), "remove csi.readOnly"),
    a_claim=(
        inline(volume_context=context_of(scratch="1Gi", **{names.CSI_EPHEMERAL: "false"}), readonly=False),
        "use an inline volume",
    ),
    too_small=(inline(volume_context=context_of(scratch="1"), readonly=False), "volumeAttributes.scratch=1 must be"),
    no_number=(inline(volume_context=context_of(scratch="/etc" * 99), readonly=False), "must be a size from"),
)
def test_scratch_that_cannot_be_mounted_is_refused(request_: csi_pb2.NodePublishVolumeRequest, part: str) -> None:
    assert part in sentence(request_)


def test_an_inline_volume_that_a_runtime_would_make_writable_is_refused() -> None:
    assert "csi.readOnly: true" in sentence(inline(readonly=False))


@pytest.mark.parametrize("field", ["volume_id", "target_path", "volume_capability"])
def test_a_missing_field_is_named(field: str) -> None:
    assert field in sentence(inline(**{field: None}))


@cases(
    "words, request_",
    an_access_mode_newer_than_the_driver=("99", inline(volume_capability=capability(99))),
    no_dataset_attribute=("volumeAttributes.dataset", inline(volume_context=context_of(dataset=None))),
    no_pod_namespace=("podInfoOnMount", inline(volume_context=context_of(**{names.CSI_POD_NAMESPACE: None}))),
)
def test_what_is_wrong_is_refused_with_what_to_write(words: str, request_: csi_pb2.NodePublishVolumeRequest) -> None:
    assert words in sentence(request_)


@pytest.mark.parametrize(
    "path",
    ["/etc", "relative/path", str(KUBELET), f"{KUBELET}/../x/y", f"{KUBELET}x/pods/a", f"{KUBELET}/pods/../../x", "/"],
)
def test_a_target_outside_the_kubelets_folder_is_refused(path: str) -> None:
    assert repr(path) in sentence(inline(target_path=path))


@given(st.text(alphabet="./ab\0", max_size=40))
def test_an_accepted_target_lies_below_the_kubelets_folder_however_it_is_written(tail: str) -> None:
    request = csi_pb2.NodeUnpublishVolumeRequest(volume_id="v", target_path=f"{KUBELET}/{tail}")
    try:
        target = parse_unpublish(request, KUBELET).target
    except VolumeError:
        return
    assert KUBELET in target.parents
    assert ".." not in target.parts


HINTS = [value for name, value in vars(names).items() if name.startswith("CSI_ATTRIBUTE_HINT_")]
ATTRIBUTES = st.sampled_from(
    [*inline().volume_context, names.CSI_ATTRIBUTE_DATASET_NAMESPACE, "other", *HINTS],
)


@given(
    volume_id=st.text(max_size=5),
    target=st.sampled_from(["", "/", TARGET, "/etc/passwd"]),
    mode=st.none() | st.integers(0, 12),
    context=st.dictionaries(ATTRIBUTES, st.text(max_size=5)),
)
def test_any_request_is_parsed_whole_or_refused_as_invalid(
    volume_id: str, target: str, mode: int | None, context: dict[str, str]
) -> None:
    wanted = None if mode is None else capability(mode)
    request = csi_pb2.NodePublishVolumeRequest(
        volume_id=volume_id, target_path=target, volume_capability=wanted, volume_context=context, readonly=True
    )
    try:
        parsed = parse_publish(request, KUBELET)
    except VolumeError:
        return
    assert all((parsed.volume_id, parsed.dataset, parsed.dataset_namespace, parsed.pod_namespace))


LONG = "a" * 900_000


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"volume_context": context_of(dataset=LONG[:254])}, "volumeAttributes.dataset is"),
        ({"volume_context": context_of(dataset="Not_A_Name")}, "volumeAttributes.dataset is"),
        ({"volume_context": context_of(dataset="imagenet\n")}, "volumeAttributes.dataset is"),
        ({"volume_context": context_of(datasetNamespace=LONG[:64])}, "volumeAttributes.datasetNamespace is"),
        ({"volume_context": context_of(datasetNamespace="a.b")}, "volumeAttributes.datasetNamespace is"),
        ({"volume_context": context_of(dataset=LONG)}, f"{MOST_ATTRIBUTES} are allowed"),
        ({"volume_context": context_of(anything=LONG)}, f"{MOST_ATTRIBUTES} are allowed"),
        ({"volume_context": context_of(version=LONG[:64_000])}, "64 digits"),
        ({"volume_context": context_of(**{names.CSI_POD_NAME: LONG[:254]})}, names.CSI_POD_NAME),
        ({"volume_context": context_of(**{names.CSI_POD_NAMESPACE: LONG[:64]})}, names.CSI_POD_NAMESPACE),
        ({"volume_context": context_of(**{names.CSI_POD_UID: LONG[:65]})}, "is no UID"),
        ({"volume_id": LONG[:513]}, "volumeHandle"),
        ({"target_path": f"{TARGET}/{LONG}"}, "4095 are allowed"),
    ],
)
def test_a_value_that_is_no_name_or_too_long_is_refused_in_a_short_sentence(
    request_: dict[str, Any], words: str
) -> None:
    told = sentence(inline(**request_))
    assert words in told
    assert len(told) < 250


def test_the_longest_names_that_kubernetes_allows_are_taken() -> None:
    context = context_of(
        dataset=LONG[:253], datasetNamespace=LONG[:63], **{names.CSI_POD_NAME: LONG[:253], names.CSI_POD_UID: LONG[:64]}
    )
    assert parse_publish(inline(volume_id=LONG[:512], volume_context=context), KUBELET).dataset == LONG[:253]


def test_a_volume_that_an_earlier_release_mounted_with_a_long_id_can_be_unpublished() -> None:
    request = csi_pb2.NodeUnpublishVolumeRequest(volume_id=LONG, target_path=TARGET)
    assert parse_unpublish(request, KUBELET).target == Path(TARGET)


def test_unpublish_needs_a_volume_id() -> None:
    with pytest.raises(VolumeError, match="volume_id"):
        parse_unpublish(csi_pb2.NodeUnpublishVolumeRequest(target_path=TARGET), KUBELET)


def test_stats_need_a_path() -> None:
    with pytest.raises(VolumeError, match="volume_path"):
        parse_stats(csi_pb2.NodeGetVolumeStatsRequest(volume_id="v"))


def test_stats_of_any_path_are_a_question_that_can_be_asked() -> None:
    assert parse_stats(csi_pb2.NodeGetVolumeStatsRequest(volume_id="v", volume_path="some/path")).path == Path(
        "some/path"
    )


def test_a_volume_may_name_its_version() -> None:
    assert parse_publish(inline(volume_context=context_of(version="1a" * 32)), KUBELET).version == "1a" * 32


@pytest.mark.parametrize("version", ["1a1a1a1a1a1a", "../" + "a" * 61, "A" * 64])
def test_what_cannot_be_a_whole_version_is_refused(version: str) -> None:
    assert "64 digits" in sentence(inline(volume_context=context_of(version=version)))


def test_a_report_volume_is_the_pods_that_the_kubelet_names() -> None:
    request = inline(volume_context=context_of(report="true"))
    assert is_report(request)
    volume = parse_report(request, KUBELET)
    assert (volume.pod_name, volume.pod_uid, volume.target) == ("vision/trainer-0", "u1", Path(TARGET))


@pytest.mark.parametrize("uid", ["", "..", "a/b", "x" * 65])
def test_a_report_volume_of_nobody_is_refused(uid: str) -> None:
    context = context_of(report="true") | {names.CSI_POD_UID: uid}
    with pytest.raises(VolumeError, match="did not say which pod asks"):
        parse_report(inline(volume_context=context), KUBELET)


def test_a_dataset_is_no_report_volume() -> None:
    assert not is_report(inline())


def test_what_the_webhook_read_in_a_pods_spec_comes_with_each_of_its_volumes() -> None:
    hints = PodHints("pytorch", FrameworkSource.COMMAND, batch_size=256, gpus=8, job="resnet")
    context = context_of(**hint_attributes(hints))
    assert parse_publish(inline(volume_context=context), KUBELET).hints == hints
    assert parse_report(inline(volume_context=context), KUBELET).hints == hints


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("false", False), (None, False)])
def test_an_inline_volume_says_that_its_pod_has_a_user_namespace(value: str | None, expected: bool) -> None:
    context = context_of(**{names.CSI_ATTRIBUTE_USER_NAMESPACE: value})
    assert parse_publish(inline(volume_context=context), KUBELET).user_namespace is expected


@pytest.mark.parametrize("attribute", HINTS)
def test_a_hint_written_by_hand_that_is_none_keeps_no_pod_from_starting(attribute: str) -> None:
    assert parse_publish(inline(volume_context=context_of(**{attribute: "\0" * 9999})), KUBELET).hints == NO_HINTS


def test_the_order_that_a_pod_says_it_reads_in_comes_with_its_volume() -> None:
    context = context_of(**{names.CSI_ATTRIBUTE_SAMPLING: '{"seed": 3, "rank": 0}'})
    assert parse_publish(inline(volume_context=context), KUBELET).sampling == '{"seed":3,"rank":0}'


def test_an_order_written_by_hand_that_is_none_keeps_no_pod_from_starting() -> None:
    context = context_of(**{names.CSI_ATTRIBUTE_SAMPLING: '{"seed": "\0"'})
    assert parse_publish(inline(volume_context=context), KUBELET).sampling == ""
