"""What an endpoint, which anyone who may make a Dataset chooses, may answer as a body that is read whole."""

import re

from stoker_sidecar.errors import ServerError

# Bytes of a response that is read whole: a page of a listing, an error. A page of the longest keys has 4 MB.
MOST_BODY = 16 * 1024 * 1024
# What no S3 server sends and what makes an XML parser take more memory than the text has: entities, and encodings
# in which they could hide.
_ENTITIES = re.compile(rb"<!DOCTYPE|<!ENTITY|\x00")
_ENCODING = re.compile(rb"""\A\s*(?:\xef\xbb\xbf)?<\?xml[^>]*\sencoding\s*=\s*["'](?!utf-8["'])""", re.IGNORECASE)


def check_size(host: str, size: int) -> None:
    """Raise ServerError for a body of so many bytes or more, where that is too much."""
    if size > MOST_BODY:
        raise ServerError(
            f"{host} answers with more than {MOST_BODY // 2**20} MiB where S3 sends a page of 1,000 objects: check "
            "source.endpoint",
            temporary=False,
        )


def check_xml(host: str, body: bytes | bytearray) -> None:
    """Raise ServerError for XML that could grow while it is parsed."""
    if _ENTITIES.search(body) or _ENCODING.search(body):
        raise ServerError(f"{host} answers with XML that no S3 server sends", temporary=False)
