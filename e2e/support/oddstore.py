"""An S3 server that takes any key.

Versitygw's are files of a folder, so it has none of the keys that cannot be files.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config

from e2e.cluster.processes import answers, wait_for

START_SECONDS = 30.0


@contextmanager
def any_key_store(address: str, port: int, bucket: str, objects: Mapping[str, bytes], log: Path) -> Iterator[str]:
    """Run moto's server on ``address`` with one filled bucket; yields its URL."""
    url = f"http://{address}:{port}"
    command = [str(Path(sys.executable).parent / "moto_server"), "-H", address, "-p", str(port)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            wait_for(
                "the S3 server", lambda: answers(f"{url}/moto-api/"), START_SECONDS, log, lambda: server.poll() is None
            )
            _fill(url, bucket, objects)
            yield url
        finally:
            server.terminate()


def _fill(url: str, bucket: str, objects: Mapping[str, bytes]) -> None:
    client: Any = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(s3={"addressing_style": "path"}),
    )
    client.create_bucket(Bucket=bucket)
    for key, body in objects.items():
        client.put_object(Bucket=bucket, Key=key, Body=body)
    client.close()
