"""Puts the photos into a bucket, once: existing objects of the right length are skipped, other photos removed."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from aiobotocore.session import get_session
from botocore.config import Config
from botocore.exceptions import ClientError

from examples.demo.place import Store

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client

PREFIX = "photos/"
AT_ONCE = 32  # concurrent uploads; enough to keep one connection pool busy, few enough for any server


async def upload(store: Store, bucket: str, root: Path, say: Callable[[str], None]) -> int:
    """Put every file below ``root`` into ``bucket``, under its relative path. Returns bytes put.

    The bucket is made if needed. Objects below ``PREFIX`` that are not among the files are removed.
    """
    config = Config(max_pool_connections=AT_ONCE, s3={"addressing_style": "path"})
    async with get_session().create_client(
        "s3",
        endpoint_url=store.upload_endpoint,
        region_name=store.region,
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
        config=config,
    ) as client:
        await _make_bucket(client, bucket)
        present = await _present(client, bucket)
        files = {str(path.relative_to(root)): path for path in _files(root)}
        missing = [path for key, path in files.items() if present.get(key) != path.stat().st_size]
        for key in present.keys() - files.keys():  # of another version of the demo
            await client.delete_object(Bucket=bucket, Key=key)
        say(
            f"uploading {len(missing):,} photos to s3://{bucket}"
            if missing
            else f"s3://{bucket} has all photos already"
        )
        limit = asyncio.Semaphore(AT_ONCE)

        async def put(path: Path) -> int:
            async with limit:
                body = await asyncio.to_thread(path.read_bytes)
                await client.put_object(Bucket=bucket, Key=str(path.relative_to(root)), Body=body)
                return len(body)

        return sum(await asyncio.gather(*map(put, missing)))


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


async def _make_bucket(client: "S3Client", bucket: str) -> None:
    try:
        await client.create_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise


async def _present(client: "S3Client", bucket: str) -> dict[str, int]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=PREFIX)
    return {item["Key"]: item["Size"] async for page in pages for item in page.get("Contents", [])}
