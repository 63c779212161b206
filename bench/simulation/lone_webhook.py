"""The product's webhook in a process that does nothing else: what the machine leaves of the time of an answer."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.errors import BenchError
from bench.simulation import shape
from bench.simulation.reviews import WebhookCall
from stoker_api.dataset import Dataset
from stoker_operator.core.catalog import CatalogEntry, catalog_entry
from stoker_operator.webhook.certs import make
from stoker_operator.webhook.rotation import load_certificate, new_tls_context
from stoker_operator.webhook.server import WebhookServer

_HOST = "localhost"


@contextmanager
def lone_webhook(dataset: str) -> Iterator[WebhookCall]:
    """Serve reviews of pods that read this Dataset, the only one there is. Raises BenchError when it does not come."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, dataset))
    process.start()
    there.close()  # so that its end is seen here
    try:
        port, authorities = here.recv()
        yield WebhookCall(f"https://{_HOST}:{port}/mutate", _HOST, authorities.decode())
    except EOFError as error:
        raise BenchError("the process that was to answer reviews alone has ended") from error
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, dataset: str) -> None:
    asyncio.run(_served(pipe, dataset))


async def _served(pipe: Connection, dataset: str) -> None:
    material = make([_HOST], datetime.now(UTC))
    tls = new_tls_context()
    load_certificate(tls, material.certificate, material.key)
    one = Dataset.model_validate(shape.dataset(dataset, "all"))
    entries = {one.key: catalog_entry(one)}
    server = WebhookServer(lambda: entries, _nobody, tls, _HOST, 0, is_called_by=_anybody)
    await server.start()
    pipe.send((server.port, material.authorities))
    await asyncio.Event().wait()


async def _anybody(path: str) -> bool:
    return True


async def _nobody(key: str) -> CatalogEntry | None:
    return None
