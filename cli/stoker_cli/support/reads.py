"""Reads what support commands need from the API server, with the rights of the user."""

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from typing import Protocol

from stoker_cli.support.facts import (
    DAEMON_SET,
    DEPLOYMENT,
    HERE,
    READS,
    RELEASE_PODS,
    ClusterFacts,
    ClusterRead,
    Raw,
    right_for,
)
from stoker_kube.api import Listing, Object
from stoker_kube.client import ServerVersion
from stoker_kube.errors import ConfigError, Forbidden, KubeError, NotFound, Unauthorized, Unavailable
from stoker_kube.resources import PODS, Kind

_FIRST = (DEPLOYMENT, DAEMON_SET, RELEASE_PODS)  # they find the namespace of the release
_AT_ONCE = 4  # requests at a time
_FATAL = (ConfigError, Unauthorized)


class SupportClient(Protocol):
    """The requests of support commands. ``KubeClient`` implements it. Methods raise KubeError."""

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Return all matching objects."""

    async def version(self) -> ServerVersion:
        """Return the version and the time of the API server."""

    async def dry_run(self, kind: Kind, body: Object, namespace: str) -> Object:
        """Have the API server admit an object, and store nothing."""

    async def pod_log(self, name: str, namespace: str, container: str, *, most: int, previous: bool = False) -> bytes:
        """Return the end of a log."""


async def read_facts(
    client: SupportClient, probe: Object | None, namespace: str, more: Sequence[ClusterRead] = ()
) -> ClusterFacts:
    """Read everything that the user may read. Raises KubeError if the API server does not answer at all.

    ``probe``: a pod for a dry run in ``namespace``; None: send none. ``more``: reads in addition to READS.
    """
    server = await client.version()
    first = await _read_all(client, _FIRST, "")
    place = ClusterFacts(objects=_read(first)).namespace
    rest = await _read_all(client, [read for read in (*READS, *more) if read not in _FIRST], place)
    results = first | rest
    return ClusterFacts(
        objects=_read(results),
        unread={read: result for read, result in results.items() if isinstance(result, str)},
        now=server.time,
        server_version=server.git_version,
        cli_version=version("stoker"),
        probe=None if probe is None else await _probe(client, probe, namespace),
    )


_Results = dict[ClusterRead, Sequence[Raw] | str]


def _read(results: _Results) -> dict[ClusterRead, Sequence[Raw]]:
    return {read: result for read, result in results.items() if not isinstance(result, str)}


async def _read_all(client: SupportClient, reads: Sequence[ClusterRead], place: str) -> _Results:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(read: ClusterRead) -> Sequence[Raw] | str:
        async with slots:
            return await _list(client, read, place)

    return dict(zip(reads, await asyncio.gather(*map(one, reads)), strict=True))


async def _list(client: SupportClient, read: ClusterRead, place: str) -> Sequence[Raw] | str:
    """Return the objects of a read, or why there are none."""
    if read.namespace == HERE and not place:
        return "the namespace of the release is unknown. Use an account that may list deployments.apps."
    namespace = place if read.namespace == HERE else read.namespace
    try:
        return list((await client.list(read.kind, namespace, read.labels, read.fields)).items)
    except _FATAL:
        raise
    except Forbidden:
        return f"you may not {right_for(read)}. Use an account with this right."
    except NotFound:
        return f"the API server has no {read.kind.plural}. Install the chart, which applies the CRDs."
    except Unavailable as error:
        return f"the API server did not answer: {error.message}"
    except KubeError as error:
        return f"the API server refused to {right_for(read)}: {error.message}"


async def _probe(client: SupportClient, probe: Object, namespace: str) -> str | None:
    """Return the API server's refusal of a test pod. Empty: it was admitted. None: the namespace does not exist."""
    try:
        await client.dry_run(PODS, probe, namespace)
    except _FATAL:
        raise
    except NotFound:
        return None
    except KubeError as error:
        return error.message
    return ""
