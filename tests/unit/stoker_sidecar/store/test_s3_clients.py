"""What S3 clients share: botocore's descriptions, read before the fetcher is forked."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader

from stoker_api.dataset import Source
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.s3_clients import open_client, open_identity, read_descriptions
from stoker_sidecar.wire.credentials import StaticCredentials

LARGE = 50_000  # bytes; one of 7 KB takes half a millisecond


async def test_the_first_client_reads_no_large_description(monkeypatch: pytest.MonkeyPatch) -> None:
    read_descriptions()
    read: list[Path] = []
    load = JSONFileLoader.load_file

    def noted(self: JSONFileLoader, path: str) -> Any:
        found = load(self, path)
        if found is not None:
            read.extend(file for file in Path(path).parent.glob(f"{Path(path).name}.json*"))
        return found

    monkeypatch.setattr(JSONFileLoader, "load_file", noted)
    source = Source.model_validate({"uri": "s3://bucket/p/", "endpoint": "http://127.0.0.1:9", "region": "us-east-1"})
    settings = ConnectionSettings()
    async with AsyncExitStack() as stack:
        identity = await open_identity(source, StaticCredentials("key", "secret", ""), settings)
        await open_client(source, identity, settings, stack)
    assert [file for file in read if file.stat().st_size > LARGE] == []
