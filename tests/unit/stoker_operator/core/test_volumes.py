"""Names and shapes of the volume and claim of a Dataset."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.plans.volumes import (
    is_ours,
    labels_for,
    persistent_volume,
    persistent_volume_claim,
    persistent_volume_name,
)
from tests.unit.stoker_operator.builders import make_dataset

_LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
_NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)


@settings(max_examples=40)
@given(_LABEL, _NAME)
def test_volume_names_are_valid(namespace: str, name: str) -> None:
    made = persistent_volume_name(namespace, name)
    assert len(made) <= 253
    assert made[-1].isalnum()


def test_two_datasets_never_share_a_volume_name() -> None:
    assert persistent_volume_name("a-b", "c") != persistent_volume_name("a", "b-c")


def test_the_volume_is_for_the_datasets_own_claim_and_no_other() -> None:
    volume, claim = persistent_volume(make_dataset()), persistent_volume_claim(make_dataset())
    assert volume["spec"]["claimRef"]["namespace"] == claim["metadata"]["namespace"] == "vision"
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"] == "imagenet"
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["csi"]["volumeHandle"] == "vision/imagenet"
    assert (volume["spec"]["storageClassName"], claim["spec"]["storageClassName"]) == ("", "")


def test_what_was_made_is_known_again() -> None:
    assert is_ours(persistent_volume_claim(make_dataset()))
    assert not is_ours({"metadata": {"name": "imagenet"}})


def test_a_name_too_long_for_a_label_is_shortened() -> None:
    assert all(len(value) <= 63 for value in labels_for(make_dataset("x" * 200)).values())
