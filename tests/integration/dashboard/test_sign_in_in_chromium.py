"""Signing in to the page in the cluster, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.dashboard.page_server import Witness, served
from tests.integration.dashboard.sample_cluster import sample_cluster
from tests.integration.dashboard.test_page_in_chromium import take_picture
from tests.support.ports import free_ports
from tests.unit.stoker_cli.dashboard.cluster_page import READER, SharedPage


@pytest.fixture
def witness(chromium: Browser) -> Iterator[Witness]:
    page = SharedPage()
    page.objects = sample_cluster()
    [port] = free_ports(1)
    with served(page.app, port):
        context = chromium.new_context(base_url=f"http://localhost:{port}", viewport={"width": 1280, "height": 720})
        witness = Witness(context.new_page())
        witness.page.goto("/datasets")
        yield witness
        context.close()


def test_a_token_opens_the_page_of_its_user_until_the_user_signs_out(witness: Witness) -> None:
    page = witness.page
    expect(page.get_by_label("Token")).to_be_focused()
    take_picture(page, "sign-in-light")
    page.keyboard.type("reader-token")
    page.keyboard.press("Enter")
    expect(page.get_by_text(READER)).to_be_visible()
    expect(page.get_by_role("link", name="vision/imagenet")).to_be_visible()
    assert "reader-token" not in page.content()
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Stoker")).to_be_visible()
    page.goto("/datasets")
    expect(page.get_by_role("heading", name="Sign in to Stoker")).to_be_visible()
    assert witness.errors == []


def test_a_wrong_token_is_refused_in_words(witness: Witness) -> None:
    page = witness.page
    page.get_by_label("Token").fill("wrong-token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("The API server does not accept this token")
    expect(page.get_by_label("Token")).to_have_value("")
