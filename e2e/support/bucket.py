"""A bucket of the cluster's S3 server, filled and changed as a data team would."""

import hashlib
import random
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

from e2e.cluster import S3Server

AT_ONCE = 8


class Bucket:
    """Objects by key. The contents are the test's own model of the bytes that pods must read."""

    def __init__(self, server: S3Server, name: str) -> None:
        self.name = name
        self.server = server
        session: Any = botocore.session.get_session()  # botocore makes a client's methods at run time
        self._client = session.create_client(
            "s3",
            endpoint_url=server.endpoint,
            region_name=server.region,
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
            config=Config(max_pool_connections=AT_ONCE, s3={"addressing_style": "path"}),
        )
        self.objects: dict[str, bytes] = {}
        try:
            self._client.create_bucket(Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise

    def put(self, objects: Mapping[str, bytes]) -> None:
        """Upload, and record the uploaded content."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(
                pool.map(
                    lambda item: self._client.put_object(Bucket=self.name, Key=item[0], Body=item[1]), objects.items()
                )
            )
        self.objects |= objects

    def put_in_parts(self, key: str, body: bytes, part_size: int) -> None:
        """Upload in parts, as SDKs do above 8 MiB, with the CRC-64/NVME that S3 keeps, and record it."""
        at: dict[str, Any] = {"Bucket": self.name, "Key": key}
        whole = {"ChecksumType": "FULL_OBJECT"}
        begun = self._client.create_multipart_upload(**at, **whole, ChecksumAlgorithm="CRC64NVME")
        at["UploadId"] = begun["UploadId"]
        done = []
        for number, start in enumerate(range(0, len(body), part_size), 1):
            part = body[start : start + part_size]
            sent = self._client.upload_part(**at, PartNumber=number, Body=part, ChecksumAlgorithm="CRC64NVME")
            done.append({"PartNumber": number, "ETag": sent["ETag"], "ChecksumCRC64NVME": sent["ChecksumCRC64NVME"]})
        self._client.complete_multipart_upload(**at, **whole, MultipartUpload={"Parts": done})
        self.objects[key] = body

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        for key in keys:
            self._client.delete_object(Bucket=self.name, Key=key)
            del self.objects[key]

    def sums(self, prefix: str = "") -> dict[str, str]:
        """Return the SHA-256 of every object below ``prefix``, by relative path."""
        below = {key.removeprefix(prefix): body for key, body in self.objects.items() if key.startswith(prefix)}
        return {path: hashlib.sha256(body).hexdigest() for path, body in below.items()}


def files(count: int, size: int, prefix: str = "", seed: int = 1) -> dict[str, bytes]:
    """Make ``count`` objects of ``size`` random bytes in ten folders."""
    rng = random.Random(seed)
    return {f"{prefix}{index % 10}/{index:05d}.bin": rng.randbytes(size) for index in range(count)}
