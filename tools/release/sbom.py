"""The software bill of materials of an image: its Debian and Python packages, as CycloneDX 1.6."""

import email
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_DPKG = "var/lib/dpkg/status"


def packages(descriptions: Mapping[str, bytes]) -> list[Component]:
    """Return the packages that an image's files describe."""
    debian = _debian(descriptions.get(_DPKG, b"").decode(errors="replace"))
    python = (_python(content) for name, content in descriptions.items() if name != _DPKG)
    return sorted([*debian, *python], key=lambda package: str(package.purl))


def bill(image: str, version: str, digest: str, parts: Iterable[Component], created: int) -> str:
    """Return the JSON of the bill of an image. ``created`` is in seconds since 1970."""
    purl = PackageURL("oci", None, image, f"sha256:{digest}")
    whole = Component(name=image, version=version, type=ComponentType.CONTAINER, purl=purl, bom_ref=purl.to_string())
    bom = Bom(components=parts, serial_number=uuid5(NAMESPACE_URL, purl.to_string()))
    bom.metadata.timestamp = datetime.fromtimestamp(created, UTC)
    bom.metadata.component = whole
    bom.register_dependency(whole, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _debian(status: str) -> Iterator[Component]:
    for paragraph in filter(None, status.split("\n\n")):
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        if fields["Status"].endswith(" installed"):
            yield _component(
                PackageURL("deb", "debian", fields["Package"], fields["Version"], {"arch": fields["Architecture"]})
            )


def _python(metadata: bytes) -> Component:
    fields = email.message_from_bytes(metadata)
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    return _component(PackageURL("pypi", None, name, fields["Version"]))


def _component(purl: PackageURL) -> Component:
    text = purl.to_string()
    return Component(name=purl.name, version=purl.version, purl=purl, bom_ref=text, type=ComponentType.LIBRARY)
