"""Power cuts at random moments: readers get the right bytes or an error, before and after, by each kind of mount.

``STOKER_POWER_CUTS`` is the number of cuts, 20 by default. The same seed gives the same moments and losses on a machine
of the same speed.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.keeper import Keeper
from tests.support.power_cuts import CutNode
from tests.support.s3 import S3Server
from tests.support.volatile_disk import volatile_disk

pytestmark = [pytest.mark.root, pytest.mark.timeout(1800)]
CUTS = int(os.environ.get("STOKER_POWER_CUTS", "20"))
SEED = int(os.environ.get("STOKER_POWER_CUTS_SEED", "1"))
_MIB = 1024**2
# The first writes names and sizes before data, which leaves zeros. The second is ext4's default. On XFS, sizes grow
# when data is written.
DISKS = {
    "ext4, data later": ("ext4", "data=writeback,nodelalloc,commit=1"),
    "ext4": ("ext4", "commit=1"),
    "xfs": ("xfs", "nouuid"),  # the dead one may exist for a moment
}


def _files() -> dict[str, bytes]:
    """Make files with MD5 ETags, and below ``parts/`` files without, of which two are large."""
    source = random.Random(5)
    small = {f"d{n % 3}/{n}": source.randbytes(1 + n * 2000) for n in range(40)}
    in_parts = {f"parts/{n}": source.randbytes(1000 + n * 9000) for n in range(12)}
    return small | in_parts | {"parts/large": source.randbytes(17 * _MIB), "parts/larger": source.randbytes(25 * _MIB)}


async def _put_in_parts(client: Any, bucket: str, key: str, data: bytes) -> None:
    at = {"Bucket": bucket, "Key": key}
    begun = await client.create_multipart_upload(**at)
    at["UploadId"] = begun["UploadId"]
    parts = [data[start : start + 5 * _MIB] for start in range(0, len(data), 5 * _MIB)]
    done = []
    for number, part in enumerate(parts, 1):
        sent = await client.upload_part(**at, PartNumber=number, Body=part)
        done.append({"PartNumber": number, "ETag": sent["ETag"]})
    await client.complete_multipart_upload(**at, MultipartUpload={"Parts": done})


async def _fill(s3: S3Server, bucket: str, files: dict[str, bytes]) -> None:
    await s3.bucket({key: data for key, data in files.items() if not key.startswith("parts/")}, bucket)
    async with s3.client() as client:
        for key in (key for key in files if key.startswith("parts/")):
            await _put_in_parts(client, bucket, key, files[key])


@pytest.mark.parametrize("kind", DISKS)
async def test_readers_get_the_right_bytes_or_an_error_whenever_the_power_goes(
    s3: S3Server, tmp_path: Path, kind: str
) -> None:
    files, bucket = _files(), f"cuts-{list(DISKS).index(kind)}"
    await _fill(s3, bucket, files)
    cuts = -(-CUTS // len(DISKS))
    keeper = Keeper(tmp_path / "keeper", agent="sleep 10000")
    with volatile_disk(tmp_path, *DISKS[kind], megabytes=512) as disk, keeper:
        (keeper.run_dir / "fetcher.sock").symlink_to(tmp_path / "fetcher.sock")
        disk.cut(0, 1.0)
        disk.switch_off()
        source = {"uri": f"s3://{bucket}", "endpoint": s3.endpoint}
        node = CutNode(tmp_path, disk, keeper, source, files, random.Random(SEED))
        for number in range(cuts + 1):  # the last one reads the remains of the last cut
            await node.cycle(eager=number % 2 == 0)
            print(f"{kind}: {node.tally}", flush=True)
    assert node.tally.wrong == []
    assert node.tally.checked >= cuts // 2
