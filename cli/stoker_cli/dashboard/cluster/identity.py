"""Tokens that users paste, and the users to whom the API server says they belong."""

import re
from dataclasses import dataclass

from stoker_cli.access.cluster import DEFAULT
from stoker_kube.api import Kube
from stoker_kube.errors import Forbidden
from stoker_kube.resources import Kind

SELF_SUBJECTS = Kind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
MOST_TOKEN = 12_288  # characters; those of identity providers with many groups have some thousands
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")  # RFC 6750
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_UNNAMED = "a user who may not ask for their name"


@dataclass(frozen=True)
class UserToken:
    """A token, and the namespace that is shown if the user may not list all. Empty: not given."""

    token: str
    namespace: str = ""


def problem_of(given: UserToken) -> str:
    """Return what is wrong with the form of a token or a namespace, or an empty string."""
    if len(given.token) > MOST_TOKEN or not _TOKEN.fullmatch(given.token):
        return f"This is no token: a token has letters, digits and ._~+/=- only, at most {MOST_TOKEN:,} of them."
    if given.namespace and not _NAMESPACE.fullmatch(given.namespace):
        return "This is no name of a namespace: it has lower-case letters, digits and hyphens, at most 63."
    return ""


async def user_of(client: Kube) -> str:
    """Return the name of the client's user. Raises KubeError, such as Unauthorized for a wrong token."""
    try:
        review = await client.create(SELF_SUBJECTS, {})
    except Forbidden:  # the token is valid
        return _UNNAMED
    info = (review.get("status") or {}).get("userInfo") or {}
    return str(info.get("username") or _UNNAMED)


def namespace_of(user: str, given: str) -> str:
    """Return the given namespace, else that of a ServiceAccount."""
    kind, _, rest = user.partition("serviceaccount:")
    own = rest.partition(":")[0] if kind == "system:" else ""
    return given or (own if _NAMESPACE.fullmatch(own) else "") or DEFAULT
