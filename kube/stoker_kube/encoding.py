"""JSON that a YAML parser takes too: the API server reads the body of server-side apply as YAML."""

import json
import re
from collections.abc import Mapping
from typing import Any

# What must not stand in YAML as it is (control characters), would be folded there (line breaks beyond ASCII), or is
# half a character. Everything of the Basic Multilingual Plane beyond ASCII is escaped, which is simpler and as right.
_TO_ESCAPE = re.compile("[\x7f-\uffff]")
_REPLACEMENT = 0xFFFD  # what the API server itself stores in place of half a character


def apply_body(body: Mapping[str, Any]) -> bytes:
    """Encode ``body`` as UTF-8 that means the same as JSON and as YAML.

    ``json.dumps`` writes a character beyond U+FFFF as two escapes, which YAML refuses: here it stands as itself. Half a
    character (a lone surrogate) becomes U+FFFD.
    """
    return _TO_ESCAPE.sub(_escape, json.dumps(body, ensure_ascii=False)).encode()


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{_REPLACEMENT if 0xD800 <= code <= 0xDFFF else code:04x}"
