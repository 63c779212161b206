"""Chromium of Debian, and pages of the dashboard in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from stoker_cli.dashboard.server.app import make_app
from stoker_cli.dashboard.server.cluster_reader import ClusterReader
from stoker_cli.dashboard.server.session import BrowserSession
from stoker_kube.client import KubeClient
from tests.integration.dashboard.page_server import Witness, served
from tests.integration.dashboard.sample_cluster import sample_cluster
from tests.support.ports import free_ports
from tests.support.waiting import SECONDS
from tests.unit.stoker_cli.dashboard.users import ADMIN_READS, UserKube

CHROMIUM = "/usr/bin/chromium"  # tools/install-clients.sh
Open = Callable[..., Witness]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Chromium. Until its end, Playwright's event loop runs in this thread, so a module has no other one."""
    expect.set_options(timeout=1000 * SECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def kube() -> UserKube:
    """Make the cluster of a module's tests, which add objects with names of their own."""
    return sample_cluster()


@pytest.fixture(scope="module")
def opened(chromium: Browser, kube: UserKube) -> Iterator[Open]:
    """Return a function that opens a new page of a signed-in user, by default in light colors."""
    with signed_in(chromium, kube) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def opened_without_rights(chromium: Browser) -> Iterator[Open]:
    """Return the same for a user who may not change anything."""
    with signed_in(chromium, sample_cluster(ADMIN_READS, {})) as open_page:
        yield open_page


@contextmanager
def signed_in(chromium: Browser, kube: UserKube) -> Iterator[Open]:
    """Serve the page of a user. Yields a function that opens a page."""
    [port] = free_ports(1)
    session, reader = BrowserSession(port), ClusterReader(kube, "vision")
    with served(make_app(cast(KubeClient, kube), reader, session), port, reader.run()):
        login = session.url
        first = chromium.new_context()
        first.new_page().goto(login)
        cookies = first.storage_state()

        def open_page(path: str = "/", scheme: str = "light") -> Witness:
            context = chromium.new_context(
                base_url=login.partition("/login")[0],
                storage_state=cookies,
                color_scheme="dark" if scheme == "dark" else "light",
                viewport={"width": 1280, "height": 720},
            )
            context.set_default_timeout(1000 * SECONDS)
            witness = Witness(context.new_page())
            witness.page.goto(path)
            return witness

        yield open_page
        for context in chromium.contexts:
            context.close()


@pytest.fixture
def no_open_pages(chromium: Browser) -> Iterator[None]:
    """Close the pages of a test, as each keeps a stream of events open."""
    yield
    for context in chromium.contexts:
        context.close()
