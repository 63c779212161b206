"""The stripped descriptions of botocore: everything that clients use, without documentation."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader, Loader
from botocore.model import ServiceModel
from botocore.regions import EndpointResolver

from stoker_sidecar.store.buckets.s3_descriptions import LeanFiles, descriptions, lean

S3 = ("s3", "service-2")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (text for name, text in value.items() if name == "documentation" and text)
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)


def test_a_description_keeps_all_but_its_documentation() -> None:
    whole = {"a": [{"documentation": "long", "type": "x"}], "members": {"documentation": {"shape": "Text"}}}
    left = {"a": [{"documentation": "", "type": "x"}], "members": {"documentation": {"shape": "Text"}}}
    assert lean(whole) == left


def test_the_description_of_s3_has_no_documentation() -> None:
    assert next(_texts(descriptions().load_service_model(*S3)), None) is None


def test_the_description_of_s3_has_all_its_operations() -> None:
    def operations(loader: Loader) -> list[str]:
        names: list[str] = ServiceModel(loader.load_service_model(*S3), "s3").operation_names
        return names

    assert operations(descriptions()) == operations(Loader())


@pytest.mark.parametrize("service", ["s3", "sts", "portal.sso", "oidc", "another"])
@pytest.mark.parametrize("region", ["eu-central-1", "cn-north-1"])
def test_services_have_the_addresses_that_botocore_knows(service: str, region: str) -> None:
    lean_files, all_files = (resolver(kind).construct_endpoint(service, region) for kind in (LeanFiles, JSONFileLoader))
    assert lean_files == all_files


@cache
def resolver(files: type[JSONFileLoader]) -> EndpointResolver:
    return EndpointResolver(Loader(file_loader=files()).load_data("endpoints"))


def test_a_file_that_is_not_there_is_none() -> None:
    assert LeanFiles().load_file("/nowhere/endpoints") is None
