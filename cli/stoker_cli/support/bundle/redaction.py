"""Removes credentials from texts and objects before they leave the cluster. Pure.

Texts are masked by patterns. Objects also lose what is not needed: programs and variables of containers, and
annotations of other systems.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

REMOVED = "(removed)"
_NAMES = (
    r"[\w.-]{0,32}(?:passw(?:or)?d|passphrase|secret[_-]?access[_-]?key|secret[_-]?key|client[_-]?secret|access[_-]?key(?:[_-]?id)?"
    r"|private[_-]?key|api[_-]?key|account[_-]?key|(?:session|security|access|refresh|id|auth|bearer)?[_-]?token"
    r"|authorization|credentials?|signature|x-amz-[\w-]+|cookie)"
)
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL), REMOVED),
    (re.compile(r"://[^\s/@\"'?#]+@"), f"://{REMOVED}@"),
    (re.compile(r"\?(?=[\w.%-]{1,64}=)[^\s\"'<>]*"), f"?{REMOVED}"),
    (re.compile(r"(?i)\b(authorization\s*[:=]\s*)[^\r\n]+"), rf"\1{REMOVED}"),
    (re.compile(r"(?i)\b(aws4-hmac-sha256\s+)[^\r\n]+"), rf"\1{REMOVED}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w+/=.~-]{8,}"), rf"\1 {REMOVED}"),
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]*){1,4}"), REMOVED),
    (re.compile(r"\b(?:AKIA|ASIA|AIDA|AROA|ANPA|AGPA|ABIA|ACCA)[A-Z0-9]{12,}\b"), REMOVED),
    (re.compile(r"\b(?:gh[pousr]|github_pat|hf|glpat|xox[abprs]|sk|npm)[_-][\w-]{16,}"), REMOVED),
    (re.compile(r"\bAIza[\w-]{30,}"), REMOVED),
    (re.compile(r"/mutate/[0-9a-f]{16,}"), f"/mutate/{REMOVED}"),
    # NAME=VALUE, NAME: VALUE, "NAME": "VALUE" and --NAME VALUE. An empty value, and a word such as "is", stay.
    (
        re.compile(rf"(?i)(?<![\w])({_NAMES}[\"']?\s*[:=]\s*)(?:\"[^\"\r\n]*\"|'[^'\r\n]*'|[^\s,;&}}\"']+)"),
        rf"\1{REMOVED}",
    ),
    (re.compile(rf"(?i)(--{_NAMES}\s+)[^\s-]\S*"), rf"\1{REMOVED}"),
)
# Words of base64 without a name: an AWS secret key has 40 characters, tokens and keys more.
_WORD = re.compile(r"(?<![A-Za-z0-9/+_=-])[A-Za-z0-9/+_-]{40,}={0,2}")
_LEAST_PART = 16  # characters between two slashes, below which a word is a path
_KEPT_OF_CONTAINERS = ("name", "image", "imagePullPolicy", "resources", "volumeMounts", "ports", "securityContext")
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_KEPT_ANNOTATIONS = re.compile(r"^(?:[\w.-]+\.)?(?:stoker\.dev|kubernetes\.io|k8s\.io|helm\.sh)/")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OWN_VARIABLES = "STOKER_"


def redact(text: str) -> str:
    """Return a text with its credentials masked: keys, tokens, signed URLs, passwords and PEM blocks."""
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return _WORD.sub(_word, text)


def _word(match: re.Match[str]) -> str:
    """Mask a word that mixes capitals, small letters and digits. Paths and hexadecimal digests stay."""
    word = match[0]
    kinds = (str.isupper, str.islower, str.isdigit)
    mixed = all(any(kind(mark) for mark in word) for kind in kinds)
    return REMOVED if mixed and max(map(len, re.split(r"[/_-]", word))) >= _LEAST_PART else word


def redact_object(value: Any) -> Any:
    """Return a copy of a Kubernetes object without credentials, programs, variables and managed fields."""
    return _value(value, "")


def _value(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return _mapping(value, name)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if name in _CONTAINERS:
            return [_container(each) for each in value]
        return [_value(each, name) for each in value]
    if isinstance(value, str):
        return REMOVED if value and _is_secret(name) else redact(value)
    return value


def _is_secret(name: str) -> bool:
    """Return True if a field of this name holds a credential. Names of Secrets are none."""
    return name == "caBundle" or _SECRET_NAME.fullmatch(name) is not None


def _mapping(value: Mapping[str, Any], name: str) -> Any:
    if name in ("annotations", "clientConfig"):
        return _annotations(value) if name == "annotations" else _client_config(value)
    return {
        redact(str(key)): _value(child, str(key))
        for key, child in value.items()
        if key not in ("managedFields", "data", "stringData", "binaryData")
    }


def _annotations(value: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the values of Stoker's and Kubernetes' annotations. Other systems may store anything."""
    return {
        redact(str(key)): redact(str(text)) if _KEPT_ANNOTATIONS.match(key) and key != _LAST_APPLIED else REMOVED
        for key, text in value.items()
    }


def _client_config(value: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the Service of a webhook. Its path is the secret by which the operator knows the API server."""
    service = {key: text for key, text in (value.get("service") or {}).items() if key != "path"}
    bundle = {"caBundle": f"{len(value['caBundle'])} characters"} if value.get("caBundle") else {}
    return {"service": service, **bundle}


def _container(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return REMOVED
    kept = {key: _value(value[key], key) for key in _KEPT_OF_CONTAINERS if key in value}
    return kept | ({"env": [_variable(each) for each in value.get("env") or ()]} if value.get("env") else {})


def _variable(value: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the value of Stoker's own variables, and the names of the rest."""
    name = str(value.get("name", ""))
    if name.startswith(_OWN_VARIABLES) and isinstance(value.get("value"), str) and not _is_secret(name):
        return {"name": name, "value": redact(value["value"])}
    return {"name": name, "value": REMOVED}
