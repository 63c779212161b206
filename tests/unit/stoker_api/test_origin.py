"""Names of origins."""

from stoker_api.datasets.dataset_source import Source
from stoker_api.datasets.origin import endpoint_of, origin_names
from tests.support.cases import cases


@cases(
    "uri, endpoint, bucket, whole",
    ("s3://data/train/", None, "s3://data", "s3://"),
    ("s3://data", "https://minio.storage:9000", "https://minio.storage:9000/data", "https://minio.storage:9000"),
    ("s3://data/x", "HTTPS://MinIO.storage.:443/", "https://minio.storage/data", "https://minio.storage"),
    ("s3://data/x", "http://[::1]:80", "http://[::1]/data", "http://[::1]"),
    ("s3://data/x", "http://[::1]:81/", "http://[::1]:81/data", "http://[::1]:81"),
)
def test_one_origin_has_one_name_however_it_is_written(uri: str, endpoint: str | None, bucket: str, whole: str) -> None:
    names = origin_names(Source(uri=uri, endpoint=endpoint))

    assert names is not None
    assert names.all == (bucket, whole, "*")
    assert endpoint_of(bucket) == whole


def test_a_folder_has_no_origin() -> None:
    assert origin_names(Source(uri="file:///mnt/nfs")) is None
