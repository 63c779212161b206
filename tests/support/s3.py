"""A real S3 server (versitygw) on loopback, with a log of its requests."""

import asyncio
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import aiobotocore.session

from e2e.cluster.build import Programs
from e2e.cluster.processes import wait_for
from stoker_sidecar.wire.credentials import StaticCredentials
from tests.support.certificates import ServerCertificate
from tests.support.ports import free_ports

CREDENTIALS = StaticCredentials("stokertest", "stokertestsecret")
START_SECONDS = 20.0
_UPLOADS = 10  # concurrency: as many connections as a client keeps
# One for all clients: each new session reads S3's description again, 0.2 s of CPU.
_SESSION = aiobotocore.session.AioSession()


@dataclass(frozen=True)
class S3Server:
    """A running server. ``endpoint`` is its URL. ``access_log`` has a line for each request."""

    endpoint: str
    access_log: Path
    certificate: ServerCertificate | None = None

    def gets(self, bucket: str) -> list[str]:
        """Return the keys of a bucket's GETs, in order, one for each request."""
        return [key for operation, key in self._asked(bucket) if operation == "s3_GetObject"]

    def operations(self, bucket: str) -> list[str]:
        """Return the operations on a bucket, in order, with the server's names: ``s3_GetObject``."""
        return [operation for operation, _ in self._asked(bucket)]

    def _asked(self, bucket: str) -> list[tuple[str, str]]:
        words = (line.split() for line in self.access_log.read_text().splitlines())
        return [(word[7], word[8]) for word in words if word[1] == bucket]

    def source(self, bucket: str) -> dict[str, str]:
        """Return the source of a Dataset of a bucket."""
        return {"uri": f"s3://{bucket}", "endpoint": self.endpoint}

    async def bucket(self, files: Mapping[str, bytes] = MappingProxyType({}), name: str = "") -> str:
        """Make a bucket with these objects, contents by key. Return its name, by default a new one."""
        name, rest = name or f"bucket-{uuid4().hex[:10]}", iter(files.items())
        async with self.client() as client:
            await client.create_bucket(Bucket=name)

            async def put() -> None:
                for key, content in rest:
                    await client.put_object(Bucket=name, Key=key, Body=content)

            await asyncio.gather(*(put() for _ in range(_UPLOADS)))
        return name

    def client(self) -> Any:
        """Make an administrator's aiobotocore client, an asynchronous context manager."""
        return _SESSION.create_client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            verify=str(self.certificate.authority) if self.certificate is not None else None,
            aws_access_key_id=CREDENTIALS.access_key_id,
            aws_secret_access_key=CREDENTIALS.secret_access_key,
        )


async def put_in_parts(client: Any, bucket: str, key: str, parts: Sequence[bytes], algorithm: str, kind: str) -> None:
    """Put an object by a multipart upload with checksums.

    All parts but the last have at least 5 MiB. ``kind`` is FULL_OBJECT or COMPOSITE.
    """
    at = {"Bucket": bucket, "Key": key}
    begun = await client.create_multipart_upload(**at, ChecksumAlgorithm=algorithm, ChecksumType=kind)
    at["UploadId"] = begun["UploadId"]
    done = []
    for number, part in enumerate(parts, 1):
        sent = await client.upload_part(**at, PartNumber=number, Body=part, ChecksumAlgorithm=algorithm)
        name = f"Checksum{algorithm}"
        done.append({"PartNumber": number, "ETag": sent["ETag"], name: sent[name]})
    await client.complete_multipart_upload(**at, MultipartUpload={"Parts": done}, ChecksumType=kind)


@contextmanager
def running_s3(
    folder: Path, certificate: ServerCertificate | None = None, *, versions: bool = False
) -> Iterator[S3Server]:
    """Run a server below ``folder``. It also supports the virtual-host style, below ``localhost``.

    With ``certificate`` it uses TLS. With ``versions`` its buckets can keep versions.
    """
    (port,) = free_ports(1)
    data, access_log, log = folder / "data", folder / "access.log", folder / "versitygw.log"
    data.mkdir()
    address = f"127.0.0.1:{port}"
    options = ["--port", address, "--keep-alive", "--quiet", "--access-log", str(access_log)]
    options += ["--virtual-domain", f"localhost:{port}"]
    if certificate is not None:
        options += ["--cert", str(certificate.certificate), "--key", str(certificate.key)]
    environment = {"ROOT_ACCESS_KEY": CREDENTIALS.access_key_id, "ROOT_SECRET_KEY": CREDENTIALS.secret_access_key}
    kept: list[str] = []
    if versions:
        (folder / "versions").mkdir()
        kept = ["--versioning-dir", str(folder / "versions")]
    argv = [str(Programs().path("versitygw")), *options, "posix", *kept, str(data)]
    with log.open("wb") as output:
        process = subprocess.Popen(argv, env=environment, stdout=output, stderr=output)
    try:
        endpoint = f"{'http' if certificate is None else 'https'}://{address}"
        wait_for("versitygw", lambda: _answers(endpoint), START_SECONDS, log, lambda: process.poll() is None)
        yield S3Server(endpoint, access_log, certificate)
    finally:
        process.terminate()
        process.wait()


def _answers(endpoint: str) -> bool:
    try:
        with urlopen(endpoint, context=ssl._create_unverified_context()):
            return True
    except OSError as error:  # a refusal (HTTPError) is an answer too
        return hasattr(error, "code")
