"""The name of a node in STS and in the audit log of a store when it reads for a Dataset."""

import re

import pytest

from stoker_sidecar.agent.kube.credential_source import session_name

_TAKEN_BY_STS = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)


def test_it_names_dataset_and_node() -> None:
    assert session_name("vision", "digits", "ip-10-0-0-1.ec2.internal") == "vision.digits@ip-10-0-0-1"


@pytest.mark.parametrize("length", [1, 63, 253])
def test_sts_takes_it_however_long_the_names_are(length: int) -> None:
    assert _TAKEN_BY_STS.fullmatch(session_name("n" * length, "d" * length, "h" * length))
