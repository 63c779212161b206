"""Checks of the admission webhook: its configurations, its CA bundle, and its answer to a test pod."""

import base64
import binascii
import re
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from stoker_api import names
from stoker_api.meta import format_duration
from stoker_cli.support.facts import POD_WEBHOOK, PROFILE_WEBHOOK, ClusterFacts, ClusterRead, Raw
from stoker_cli.support.findings import Finding, fail, ok, warn

_NAME = "stoker"  # of both configurations
_POD_WEBHOOK = "pods.stoker.dev"
_SECRET_PATH = re.compile(r"/mutate/[0-9a-f]+")
_SOON = 3 * 86400.0  # seconds before the end of a certificate; the operator renews earlier
_WRITTEN = "The operator writes it within 30 s. If it stays so, see the operator's logs."
# The webhook refuses this value without looking for a Dataset.
PROBE: Mapping[str, Any] = {
    "metadata": {"generateName": "stoker-doctor-", "annotations": {names.ANNOTATION_DATASETS: "!"}},
    "spec": {"containers": [{"name": "probe", "image": "stoker-doctor"}]},
}


def configuration_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check the webhook for pods, and the webhook for TuningProfiles."""
    yield _configured(facts, POD_WEBHOOK)
    yield _configured(facts, PROFILE_WEBHOOK)


def _configured(facts: ClusterFacts, read: ClusterRead) -> Finding:
    configuration, check, subject = facts.named(read, _NAME), "webhook", f"{read.kind.kind}/{_NAME}"
    if configuration is None:
        return fail(check, subject, "does not exist, so the webhook is not called.", "Install or upgrade the chart.")
    for webhook in configuration.get("webhooks") or ():
        client = webhook.get("clientConfig") or {}
        problem = _service_problem(client) or _bundle_problem(client, facts.now)
        if problem:
            return fail(check, subject, f"{webhook.get('name', '')}: {problem}", _WRITTEN)
        left = _seconds_left(client, facts.now)
        if left is not None and left < _SOON:
            return warn(check, subject, f"its CA certificate ends in {format_duration(left)}.", _WRITTEN)
    return ok(check, subject, "has a service, a path and a valid CA bundle")


def _service_problem(client: Raw) -> str:
    service = client.get("service") or {}
    if not service:
        return "names no Service."
    return "" if service.get("path") else "has no path yet, so the API server is refused."


def _bundle_problem(client: Raw, now: float) -> str:
    if not client.get("caBundle"):
        return "has no caBundle, so the API server trusts no certificate."
    try:
        ends = _ends(client)
    except (ValueError, binascii.Error, ssl.SSLError):
        return "its caBundle holds no certificate in PEM form."
    return "all certificates in its caBundle have expired." if ends and now and max(ends) < now else ""


def _seconds_left(client: Raw, now: float) -> float | None:
    ends = _ends(client)
    return max(ends) - now if ends and now else None


def _ends(client: Raw) -> list[float]:
    """Return when the authorities of a bundle end. Empty: it has other certificates only. Raises ValueError."""
    pem = base64.b64decode(client["caBundle"], validate=True).decode("ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pem)
    return [ssl.cert_time_to_seconds(str(each["notAfter"])) for each in context.get_ca_certs()]


def call_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that the webhook refused the test pod, which the API server does not store."""
    check, answer = "webhook call", facts.probe
    pods = f"Check the Service, the NetworkPolicies and the operator's pods in {facts.namespace}."
    if answer is None:
        yield warn(check, _POD_WEBHOOK, "no test pod was sent.", "Use a namespace that exists: stoker doctor -n NAME")
    elif f'"{_POD_WEBHOOK}" denied' in answer:
        yield ok(check, _POD_WEBHOOK, "answers the API server")
    elif f'calling webhook "{_POD_WEBHOOK}"' in answer:
        yield fail(check, _POD_WEBHOOK, f"the API server cannot call it: {_shown(answer)}", pods)
    elif "cannot create resource" in answer:
        yield warn(check, _POD_WEBHOOK, "not checked: you may not create pods.", _right("create pods"))
    elif answer == "":
        text = "the API server admitted a wrong test pod without calling it."
        yield fail(check, _POD_WEBHOOK, text, "Check webhook.namespaceSelector and the webhook configuration.")
    else:
        yield warn(check, _POD_WEBHOOK, f"not checked, the test pod was refused before: {_shown(answer)}", "")


def _shown(answer: str) -> str:
    """Return an answer without the secret path of the webhook."""
    return _SECRET_PATH.sub("/mutate/...", answer)[:300]


def _right(right: str) -> str:
    return f"Use an account with the right to {right}."
