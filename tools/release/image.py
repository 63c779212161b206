"""Writes a built image as an OCI archive whose digest depends only on the image's files and settings."""

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from e2e.cluster.images import first_tag
from tools.release.archives import ArchivedFile, write_tar
from tools.release.layers import Layer, write_layer

_TYPE = "application/vnd.oci.image"
_SETTINGS = ("Cmd", "Entrypoint", "Env", "User", "WorkingDir")


@dataclass(frozen=True)
class OciImage:
    """An image in an OCI archive. ``descriptions`` are the files that describe its packages."""

    digest: str
    platform: str
    layers: tuple[Layer, ...]

    @property
    def size(self) -> int:
        """Bytes that a node fetches."""
        return sum(layer.size for layer in self.layers)

    @property
    def unpacked(self) -> int:
        """Bytes on a node's disk."""
        return sum(layer.unpacked for layer in self.layers)

    @property
    def descriptions(self) -> dict[str, bytes]:
        """The files that describe packages. Later layers replace those of earlier ones."""
        return {name: content for layer in self.layers for name, content in layer.descriptions.items()}


def write_oci_archive(docker_archive: Path, target: Path, labels: Mapping[str, str], created: str) -> OciImage:
    """Write a docker-archive as an OCI archive. ``labels`` are added to those of the image.

    The history is left out, because it has times and the build machine's settings.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as folder, tarfile.open(docker_archive) as archive:
        (manifest,) = json.load(_member(archive, "manifest.json"))
        config = json.load(_member(archive, manifest["Config"]))
        layers = tuple(write_layer(_member(archive, name), Path(folder)) for name in manifest["Layers"])
        blobs = {layer.digest: (Path(folder) / layer.digest).read_bytes() for layer in layers}
    image = _Documents(_config(config, layers, labels, created), layers)
    version = first_tag(docker_archive).rpartition(":")[2]
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": image.index(version)}
    files |= {f"blobs/sha256/{name}": blob for name, blob in sorted((blobs | image.blobs()).items())}
    with target.open("wb") as stream:
        write_tar(stream, {name: ArchivedFile(content) for name, content in files.items()})
    return OciImage(image.digest, image.platform, layers)


class _Documents:
    """The JSON documents of an image with one platform."""

    def __init__(self, config: dict[str, Any], layers: tuple[Layer, ...]) -> None:
        self._config = _json(config)
        self._platform = {key: config[key] for key in ("architecture", "os")}
        parts = [_blob(f"{_TYPE}.layer.v1.tar+gzip", layer.digest, layer.size) for layer in layers]
        own = _blob(f"{_TYPE}.config.v1+json", _sha256(self._config), len(self._config))
        kind = f"{_TYPE}.manifest.v1+json"
        self._manifest = _json({"schemaVersion": 2, "mediaType": kind, "config": own, "layers": parts})

    @property
    def digest(self) -> str:
        return _sha256(self._manifest)

    @property
    def platform(self) -> str:
        return f"{self._platform['os']}/{self._platform['architecture']}"

    def blobs(self) -> dict[str, bytes]:
        return {_sha256(document): document for document in (self._config, self._manifest)}

    def index(self, version: str) -> bytes:
        entry = _blob(f"{_TYPE}.manifest.v1+json", self.digest, len(self._manifest))
        entry |= {"platform": self._platform, "annotations": {"org.opencontainers.image.ref.name": version}}
        return _json({"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [entry]})


def _config(
    built: Mapping[str, Any], layers: tuple[Layer, ...], labels: Mapping[str, str], created: str
) -> dict[str, Any]:
    settings = {key: built["config"][key] for key in _SETTINGS if built["config"].get(key)}
    found = built["config"].get("Labels", {})
    own = {key: value for key, value in found.items() if key.startswith("org.opencontainers.")}
    return {
        "created": created,
        "architecture": built["architecture"],
        "os": built["os"],
        "config": {**settings, "Labels": own | dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in layers]},
    }


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    return cast(IO[bytes], archive.extractfile(name))


def _blob(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
