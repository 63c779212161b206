"""How kopf is run: no peering (a Lease decides who acts), own finalizer and annotations, no events of its own."""

from typing import Any

import kopf

from stoker_api import names

SERVER_TIMEOUT = 300.0  # seconds of one watch request; shorter than what load balancers cut
CONNECT_TIMEOUT = 10.0  # seconds
REQUEST_TIMEOUT = 30.0  # seconds; every request of kopf's is small
RETRY = 5.0  # seconds between attempts of a handler that failed in an unexpected way
EXIT_TIMEOUT = 2.0  # seconds for handlers under way at the end of the process


def make_settings() -> kopf.OperatorSettings:
    """Settings of the embedded kopf."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    # Without it kopf wants to watch CRDs and namespaces of the whole cluster, and needs the rights for that.
    settings.scanning.disabled = True
    settings.persistence.finalizer = names.FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP, v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix=names.GROUP, key="last-handled", v1=False
    )
    settings.watching.server_timeout = SERVER_TIMEOUT
    settings.watching.connect_timeout = CONNECT_TIMEOUT
    settings.networking.request_timeout = REQUEST_TIMEOUT
    settings.queueing.exit_timeout = EXIT_TIMEOUT
    settings.execution.default_backoff = RETRY
    return settings


def make_registry() -> kopf.OperatorRegistry:
    """A registry of our own with the login: kopf's default would import two Kubernetes client libraries."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="login")(login)
    return registry


def login(*, settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    """The pod's ServiceAccount, else the kubeconfig of $KUBECONFIG or ~/.kube/config."""
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
