"""A node sends files only to the nodes that the operator lists for the same Dataset."""

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_dataset import NodeDataset, PeerLinks
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_operator.webhook.peer_authority import PeerSigner
from stoker_sidecar.agent.http.peers.file_response import UploadLimits
from stoker_sidecar.agent.http.peers.peer_files import PeerFiles, PeerRefusal
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity, PeerServer
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.fetcher.ondisk.piece_maps import PieceMap, pack_maps
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having, PeerClient, meet_by_tls
from stoker_sidecar.version.layout import PIECE, CachePaths
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.config.peer_tls import FILE, node_of
from stoker_sidecar.wire.fetcher_protocol import Failed, Inventory, InventoryQuery, Reply
from stoker_sidecar.wire.small_files import MOST_BYTES, MOST_FILES, READER, SIZES
from tests.support.cases import cases
from tests.support.peers import new_authority, peer_tls
from tests.support.ports import free_ports
from tests.support.waiting import eventually

UID, DIGEST = "uid-1", hashlib.sha256(b"version").hexdigest()
AskFetcher = Callable[[InventoryQuery], Awaitable[Reply]]
PART = "7.0123abcd"
LIMITS = UploadLimits()
SECRET = "another Dataset's"


async def had(_: InventoryQuery) -> Reply:
    return Inventory(zlib.compress(b"\0\0\1"), 7, pack_maps([PieceMap(PART, b"\1\0\1")]), "of paths")


async def echoed(request: InventoryQuery) -> Reply:
    return Inventory(zlib.compress(b"\0\0\1"), 7, number=request.after)


async def unknown(_: InventoryQuery) -> Reply:
    return Failed(11, "not open")


async def gone(_: InventoryQuery) -> Reply:
    raise FetcherUnavailable("it is being started")


def files(root: Path, ask: AskFetcher = had, **more: Any) -> web.Application:
    """Return the application of a node with one version of files, and with other files next to it."""
    application = web.Application()
    server(root, ask, **more).add_to(application)
    return application


def server(
    root: Path,
    ask: AskFetcher = had,
    limits: UploadLimits = LIMITS,
    **row_of: object,
) -> PeerFiles:
    paths = CachePaths(root).dataset(UID).version(DIGEST)
    (paths.tree / "train").mkdir(parents=True)
    paths.manifest.touch()
    (paths.tree / "train" / "a b+c%.jpg").write_bytes(b"picture")
    (paths.tree / "large").write_bytes(b"x" * 3_000_000)
    (root / "beside").write_text(SECRET)
    (paths.tree / "link").symlink_to(root / "beside")
    paths.parts.mkdir()
    (paths.parts / PART).write_bytes(bytes(PIECE) + b"y" * PIECE + b"held")
    (paths.parts / f"{PART}.map").write_bytes(b"\0\1")
    (paths.parts / f"{PART}.held").write_bytes(b"\0\0\1")
    entry = {"namespace": "v", "name": "d", "uid": UID, "source": {"uri": "s3://b/"}, "version": DIGEST}
    row = NodeDataset.model_validate(entry | {"groups": {"names": ("asker",)}} | row_of)
    plan = NodePlan()
    plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n"), spec=NodeCacheSpec(datasets=(row,))))
    return PeerFiles(plan, CacheFolders([root]), ask, limits)


async def status_of(application: web.Application, where: str, /, **query: str) -> int:
    async with TestClient(TestServer(application)) as client, client.get(where, params=query) as answer:
        return answer.status


async def test_a_node_that_is_not_named_for_the_dataset_gets_nothing(tmp_path: Path) -> None:
    application = files(tmp_path, groups={"names": ("other",)})
    assert await status_of(application, f"/files/{UID}/{DIGEST}", path="train/a b+c%.jpg") == 403


@pytest.mark.parametrize("where", [f"/files/other/{DIGEST}", f"/files/{UID}/{'0' * 64}"])
async def test_of_what_this_node_was_not_given_nobody_gets_anything(tmp_path: Path, where: str) -> None:
    assert await status_of(files(tmp_path), where) == 403


@cases(
    "path",
    "../../../../../beside",
    "link",
    "train",
    "",
    "/etc/passwd",
    "train/../../manifest.sqlite",
    "a\0b",
    "missing",
)
async def test_no_name_leads_out_of_the_tree(tmp_path: Path, path: str) -> None:
    assert await status_of(files(tmp_path), f"/files/{UID}/{DIGEST}", path=path) == 404


@pytest.mark.parametrize(("ask", "status"), [(had, 200), (unknown, 404), (gone, 503)])
async def test_a_fetcher_that_does_not_answer_is_told(tmp_path: Path, ask: AskFetcher, status: int) -> None:
    assert await status_of(files(tmp_path, ask), f"/files/{UID}/{DIGEST}") == status


@cases("after, known", ("12", 12), ("0", 0), ("-5", -1), ("x", -1), ("", -1), ("1" * 19, -1), ("²", -1))
async def test_who_waits_for_more_says_what_it_knows(tmp_path: Path, after: str, known: int) -> None:
    where, asked = f"/files/{UID}/{DIGEST}", {"after": after}
    async with TestClient(TestServer(files(tmp_path, echoed))) as client, client.get(where, params=asked) as answer:
        assert answer.headers["Stoker-Number"] == str(known)


async def test_no_more_wait_than_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_sidecar.agent.http.peers.peer_files._MOST_WAITING", 1)
    asked: list[int] = []

    async def waits(request: InventoryQuery) -> Reply:
        asked.append(request.after)
        if request.after >= 0:
            await asyncio.Event().wait()
        return await had(request)

    where = f"/files/{UID}/{DIGEST}"
    async with TestClient(TestServer(files(tmp_path, waits))) as client:
        first = asyncio.create_task(client.get(where, params={"after": "3"}).__aenter__())
        await eventually(lambda: asked == [3])
        async with client.get(where, params={"after": "3"}) as answer:
            assert (answer.status, asked) == (200, [3, -1])
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


@pytest.fixture(autouse=True)
def _who_asks_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat plain HTTP requests as requests of the node ``asker``."""
    monkeypatch.setattr(
        "stoker_sidecar.agent.http.peers.peer_files.node_of", lambda found: node_of(found) if found else "asker"
    )


@asynccontextmanager
async def serving(application: web.Application, folder: Path) -> AsyncIterator[str]:
    """Serve over TLS like the sidecar of node ``giver``. Yields host:port. Writes the TLS files of ``asker``."""
    authority, plan, identity, port = new_authority(), NodePlan(), PeerIdentity(), free_ports(1)[0]
    plan.peer = PeerSigner(authority).sign("giver", identity.public_key, datetime.now(UTC))
    task = asyncio.create_task(PeerServer(plan, identity, application, port, folder).run())
    await eventually((folder / FILE).exists)
    peer_tls("asker", authority).leave(folder)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def meet(run: Path, peer: str) -> AbstractAsyncContextManager[PeerClient | None]:
    """Connect to the node ``giver`` at its address."""
    return meet_by_tls(run, UID, DIGEST, {peer: "giver"})


@cases("path, content", small=("train/a b+c%.jpg", b"picture"), large=("large", b"x" * 3_000_000))
async def test_a_named_node_gets_files_over_tls(tmp_path: Path, path: str, content: bytes) -> None:
    came: list[bytes] = []
    run = tmp_path / "run"
    run.mkdir()
    async with serving(files(tmp_path / "cache"), run) as peer, meet(run, peer) as client:
        assert client is not None
        told = Having(b"\0\0\1", 7, {7: PieceMap(PART, b"\1\0\1")}, "of paths", together=MOST_FILES)
        assert await client.having(peer, 3) == told
        size = len(content)
        assert await client.bring(peer, Ask(path, 0, size, size), came.append) is Came.WHOLE
    assert b"".join(came) == content


async def test_several_small_files_come_over_tls_by_one_answer(tmp_path: Path) -> None:
    came: dict[int, bytes | None] = {}
    run = tmp_path / "run"
    run.mkdir()
    asks = [Ask(path, 0, 7, 7) for path in ("train/a b+c%.jpg", "missing", "train/a b+c%.jpg")]
    async with serving(files(tmp_path / "cache"), run) as peer, meet(run, peer) as client:
        assert client is not None
        await client.bring_files(peer, asks, came.__setitem__)
    assert came == {0: b"picture", 1: None, 2: b"picture"}


async def sizes_of(application: web.Application, *wanted: str) -> tuple[int, str | None, int]:
    """Request several files together. Return the status, the sizes header, and the length of the body."""
    query = [("path", path) for path in wanted] + [("together", "")]
    where = f"/files/{UID}/{DIGEST}"
    async with TestClient(TestServer(application)) as client, client.get(where, params=query) as answer:
        return answer.status, answer.headers.get(SIZES), len(await answer.read())


@pytest.mark.parametrize("path", ["link", "../manifest.sqlite", "/etc/passwd", "train", "", "a\0b", "large"])
async def test_of_several_files_none_is_given_that_may_not_or_does_not_fit(tmp_path: Path, path: str) -> None:
    assert await sizes_of(files(tmp_path), path, "train/a b+c%.jpg") == (200, "-1,7", 7)


async def test_no_answer_has_more_bytes_than_may_be(tmp_path: Path) -> None:
    application, half = files(tmp_path), MOST_BYTES // 2 + 1
    (CachePaths(tmp_path).dataset(UID).version(DIGEST).tree / "half").write_bytes(bytes(half))
    assert await sizes_of(application, "half", "half", "train/a b+c%.jpg") == (200, f"{half},-1,7", half + 7)


async def test_who_asks_for_more_files_than_an_answer_has_is_refused(tmp_path: Path) -> None:
    assert (await sizes_of(files(tmp_path), *["train/a b+c%.jpg"] * (MOST_FILES + 1)))[:2] == (400, None)


async def test_a_stranger_gets_no_several_files_either(tmp_path: Path) -> None:
    application = files(tmp_path, groups={"names": ("other",)})
    assert (await sizes_of(application, "train/a b+c%.jpg"))[:2] == (403, None)


async def test_a_file_of_another_size_does_not_count(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    async with serving(files(tmp_path / "cache"), run) as peer, meet(run, peer) as client:
        assert client is not None
        came = await client.bring(peer, Ask("large", 0, 2_999_999, 2_999_999), lambda _: None)
    assert came is Came.NOTHING


@cases(
    "ask, content",
    proven=(Ask("model", PIECE, PIECE, 3 * PIECE, PART), b"y" * PIECE),
    held=(Ask("model", 2 * PIECE, 4, 2 * PIECE + 4, PART), b"held"),
    not_here=(Ask("model", 0, PIECE, 3 * PIECE, PART), None),
    other_part=(Ask("model", PIECE, PIECE, 3 * PIECE, "8.0123abcd"), None),
    a_way_out=(Ask("model", PIECE, PIECE, 3 * PIECE, "../manifest.sqlite"), None),
    within=(Ask("model", PIECE + 1, 5, 3 * PIECE, PART), None),
    too_long=(Ask("model", PIECE, PIECE + 1, 3 * PIECE, PART), None),
    of_a_whole_file=(Ask("large", 0, 1_000_000, 3_000_000), b"x" * 1_000_000),
    other_size=(Ask("large", 0, 1_000_000, 3_000_001), None),
)
async def test_pieces_are_given_that_are_here(tmp_path: Path, ask: Ask, content: bytes | None) -> None:
    came: list[bytes] = []
    run = tmp_path / "run"
    run.mkdir()
    async with serving(files(tmp_path / "cache"), run) as peer, meet(run, peer) as client:
        assert client is not None
        how = await client.bring(peer, ask, came.append)
    refused = Came.NOTHING if ask.offset % PIECE or ask.length > PIECE else Came.ABSENT
    assert (how, b"".join(came) or None) == (Came.WHOLE if content else refused, content)


async def test_what_is_given_and_refused_is_counted(tmp_path: Path) -> None:
    given = server(tmp_path)
    application = web.Application()
    given.add_to(application)
    where = f"/files/{UID}/{DIGEST}"
    async with TestClient(TestServer(application)) as client:
        for path in ("large", "missing"):
            async with client.get(where, params={"path": path}) as answer:
                await answer.read()
    assert (given.given[UID], given.refused[PeerRefusal.MISSING]) == (3_000_000, 1)


async def test_a_node_of_another_group_that_the_operator_named_is_answered(tmp_path: Path) -> None:
    groups = PeerLinks(links=("127.0.0.1:8082",), names=("asker",))
    application = files(tmp_path, peers=(), groups=groups)
    assert await status_of(application, f"/files/{UID}/{DIGEST}", path="large") == 200


async def test_where_nothing_is_given_nobody_is_answered(tmp_path: Path) -> None:
    application = files(tmp_path, limits=UploadLimits(0))
    assert await status_of(application, f"/files/{UID}/{DIGEST}", path="large") == 403


async def test_who_comes_while_enough_is_being_given_is_told_to_ask_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_sidecar.agent.http.peers.peer_files._TURN", 0.05)
    application = files(tmp_path, limits=UploadLimits(1, 1))
    where = f"/files/{UID}/{DIGEST}"
    async with TestClient(TestServer(application)) as client:
        first = asyncio.create_task(client.get(where, params={"path": "large"}).__aenter__())
        await asyncio.sleep(0)
        async with client.get(where, params={"path": "train/a b+c%.jpg"}) as answer:
            assert answer.status == 503
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_who_reads_has_its_turn_while_as_much_as_may_be_is_given_to_warm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_sidecar.agent.http.peers.peer_files._TURN", 0.05)
    application = files(tmp_path, limits=UploadLimits(8, 32_000_000))
    (CachePaths(tmp_path).dataset(UID).version(DIGEST).tree / "larger").write_bytes(bytes(64_000_000))
    where = f"/files/{UID}/{DIGEST}"
    async with TestClient(TestServer(application)) as client, AsyncExitStack() as taken:
        for _ in range(7):
            await taken.enter_async_context(client.get(where, params={"path": "larger"}))
        small = {"path": "train/a b+c%.jpg"}
        for more, status in ({}, 503), ({READER: ""}, 200):
            async with client.get(where, params=small | more) as answer:
                assert answer.status == status


async def test_who_asks_and_takes_nothing_loses_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_sidecar.agent.http.peers.file_response.PATIENCE", 0.2)
    monkeypatch.setattr("stoker_sidecar.agent.http.peers.peer_files._SLOWEST", 1e12)
    application = files(tmp_path, limits=UploadLimits(1))
    (CachePaths(tmp_path).dataset(UID).version(DIGEST).tree / "larger").write_bytes(bytes(64_000_000))
    where = f"/files/{UID}/{DIGEST}"
    async with TestClient(TestServer(application)) as client:
        reader, writer = await asyncio.open_connection(client.host, client.port, limit=2**16)
        writer.write(f"GET {where}?path=larger HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        async with client.get(where, params={"path": "large"}) as answer:
            assert (answer.status, len(await answer.read())) == (200, 3_000_000)
        writer.close()


async def test_a_node_that_is_away_says_nothing_and_gives_nothing(tmp_path: Path) -> None:
    async with serving(web.Application(), tmp_path) as peer:
        pass
    async with meet(tmp_path, peer) as client:
        assert client is not None
        assert await client.having(peer, 3) is None
        assert await client.bring(peer, Ask("large", 0, 1, 1), lambda _: None) is Came.NOTHING


async def test_without_a_certificate_nobody_is_asked(tmp_path: Path) -> None:
    async with meet(tmp_path, "127.0.0.1:1") as client:
        assert client is None


async def test_a_node_that_is_named_for_another_dataset_gets_nothing_over_tls(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    application = files(tmp_path / "cache", groups={"names": ("other",)})
    async with serving(application, run) as peer, meet(run, peer) as client:
        assert client is not None
        assert await client.having(peer, 3) is None
        assert await client.bring(peer, Ask("large", 0, 1, 1), lambda _: None) is Came.NOTHING


async def test_a_node_that_is_revoked_gets_nothing_on_the_connection_that_it_has(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    given = server(tmp_path / "cache")
    application = web.Application()
    given.add_to(application)
    async with serving(application, run) as peer, meet(run, peer) as client:
        assert client is not None
        assert await client.having(peer, 3) is not None
        given._plan.datasets = ()  # the next plan does not list it
        assert await client.having(peer, 3) is None


async def test_a_node_at_the_address_of_another_one_is_not_believed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    async with serving(files(tmp_path / "cache"), run) as peer:
        async with meet_by_tls(run, UID, DIGEST, {peer: "giver-2"}) as client:
            assert client is not None
            assert await client.having(peer, 3) is None
        async with meet_by_tls(run, UID, DIGEST, {}) as client:
            assert client is not None
            assert await client.having(peer, 3) is None
