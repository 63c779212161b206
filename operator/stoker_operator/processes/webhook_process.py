"""The admission webhook as a process: a catalog of Datasets, the TLS server and its health. It has no Lease."""

import asyncio
import base64
import logging
import ssl
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import Gauge

from stoker_kube.api import JSON, Kube, Object
from stoker_kube.errors import NotFound
from stoker_kube.informer import Informer
from stoker_kube.resources import DATASETS, Kind
from stoker_kube.watch import watch
from stoker_operator.core.plans.admission import parse_dataset
from stoker_operator.core.views import installed_names
from stoker_operator.core.views.catalog import CatalogEntry, catalog_entry
from stoker_operator.processes.health import HealthServer
from stoker_operator.webhook.calling_path import WEBHOOK_KINDS, CallingPath
from stoker_operator.webhook.certs import expiry
from stoker_operator.webhook.late_datasets import LateDatasets
from stoker_operator.webhook.rotation import (
    CertifiedServer,
    certificate_source,
    ensure_first,
    keep,
    load_certificate,
    new_tls_context,
)
from stoker_operator.webhook.server import WebhookServer

EXPIRY = Gauge(
    "stoker_webhook_certificate_expiry_timestamp_seconds", "Expiry of the served certificate, in Unix seconds."
)


def serve_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Serve this pair from now on, and show its expiry. Raises CertificateError if they do not match."""
    load_certificate(tls, certificate, key)
    EXPIRY.set(expiry(certificate))


async def publish_bundle(kube: Kube, configuration: str, authorities: bytes) -> bool:
    """Write the PEM bundle where it differs; return True if a configuration changed. Raises KubeError.

    With an empty bundle do nothing: cert-manager writes it.
    """
    if not authorities:
        return False
    bundle = base64.b64encode(authorities).decode()
    return any([await _publish_to(kube, kind, configuration, bundle) for kind in WEBHOOK_KINDS])


async def _publish_to(kube: Kube, kind: Kind, name: str, bundle: str) -> bool:
    try:
        configuration = await kube.get(kind, name)
    except NotFound:
        log.warning("%s %s does not exist (yet)", kind.kind, name)
        return False
    operations = _operations(configuration, bundle)
    if operations:
        await kube.patch(kind, name, operations, content_type=JSON)
    return bool(operations)


def _operations(configuration: Object, bundle: str) -> list[Object]:
    operations: list[Object] = []
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        if webhook["clientConfig"].get("caBundle") != bundle:
            # The test operation fails the patch if the entry is no longer the one that was read.
            operations.append({"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]})
            path = f"/webhooks/{index}/clientConfig/caBundle"
            operations.append({"op": "add", "path": path, "value": bundle})
    return operations


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Options of the webhook process. ``host`` None: all addresses, IPv4 and IPv6."""

    namespace: str
    host: str | None
    http_port: int  # health and metrics
    webhook_port: int
    certificate_dir: Path | None = None  # a mounted tls.crt and tls.key; None: the operator's own certificate
    reports: bool = False  # annotated pods get a socket for reports


class WebhookProcess:
    """Serves admission on every replica, leader or not."""

    def __init__(self, kube: Kube, options: WebhookOptions) -> None:
        self._catalog: Final[Informer[CatalogEntry]] = Informer(watch(kube, DATASETS), _entry, name="datasets")
        self._path: Final = CallingPath(kube, installed_names.WEBHOOK_CONFIGURATION, time.monotonic)
        tls = new_tls_context()
        self._certificates: Final = certificate_source(
            kube,
            options.namespace,
            options.certificate_dir,
            CertifiedServer(
                partial(serve_certificate, tls), partial(publish_bundle, kube, installed_names.WEBHOOK_CONFIGURATION)
            ),
        )
        self._server: Final = WebhookServer(
            lambda: self._catalog.mirror if self._catalog.synced else None,
            LateDatasets(kube).find,
            tls,
            options.host,
            options.webhook_port,
            is_called_by=self._path.is_called_by,
            reports=options.reports,
        )
        self._health: Final = HealthServer("webhook", self._missing, options.host, options.http_port)
        self._certified: Final = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop``; then finish the requests under way."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(self._catalog.run(), name="catalog"),
                tasks.create_task(self._serve(), name="webhook"),
            ]
            await self._health.start()
            stack.push_async_callback(self._health.stop)
            stack.push_async_callback(self._server.stop)
            await stop.wait()
            for task in running:
                task.cancel()

    async def _serve(self) -> None:
        await ensure_first(self._certificates, "the webhook waits for its certificate")
        await self._server.start()
        self._certified.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep(self._certificates), name="certificates")
            tasks.create_task(self._keep_path(), name="path")

    async def _keep_path(self) -> None:
        # After the certificate: without one the API server cannot call, and it may still call an older replica until
        # then.
        await ensure_first(self._path, "the webhook waits for its path")
        await keep(self._path)

    def _missing(self) -> str:
        if not self._catalog.synced:
            return "the Datasets are not known yet"
        return "" if self._certified.is_set() else "the webhook has no certificate yet"


def _entry(item: Object) -> CatalogEntry:
    return catalog_entry(parse_dataset(item))
