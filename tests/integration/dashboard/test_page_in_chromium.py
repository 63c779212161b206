"""The page in a real browser: no error, no foreign request, all by keyboard, live, and pictures of it.

``STOKER_PICTURES=FOLDER`` writes a picture of every view, in light and dark.
"""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from stoker_kube.resources import DATASETS, PODS
from tests.integration.dashboard.conftest import Open
from tests.integration.dashboard.page_server import Witness
from tests.integration.dashboard.sample_cluster import HOSTILE
from tests.unit.stoker_cli.dashboard.users import UserKube, dataset, held

VIEWS = {
    "overview": "/",
    "datasets": "/datasets",
    "dataset": "/datasets/vision/laion-part",
    "nodes": "/nodes",
    "node": "/nodes/gpu-04",
    "jobs": "/jobs",
    "job": "/jobs/vision/resnet",
    "pods": "/pods",
    "pod": "/pods/vision/resnet-3",
}
pytestmark = pytest.mark.usefixtures("no_open_pages")
CONTROLS = "a[href], button:not(:disabled), input:not([type=hidden]), select, textarea, [tabindex='0']"
ROLES = {"link", "button", "searchbox", "progressbar", "region", "navigation", "table"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_shown_without_errors_and_foreign_requests(opened: Open, scheme: str) -> None:
    witness = opened("/", scheme)
    origin = witness.page.url.rstrip("/")
    for name, path in VIEWS.items():
        witness.page.goto(path)
        expect(witness.page.locator("#state")).to_have_text("Live")
        take_picture(witness.page, f"{name}-{scheme}")
    assert witness.errors == []
    assert witness.foreign(origin) == []
    assert any(url.endswith("/static/dashboard.css") for url in witness.addresses)


def take_picture(page: Page, name: str) -> None:
    if folder := os.environ.get("STOKER_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("path", VIEWS.values(), ids=VIEWS)
def test_the_keyboard_reaches_every_control(opened: Open, path: str) -> None:
    page = opened(path).page
    page.get_by_role("button", name="Pause updates").click()  # a live update would replace marked elements
    page.evaluate("document.activeElement.blur()")
    count = page.locator(CONTROLS).count()
    for _ in range(count + 2):
        page.keyboard.press("Tab")
        page.evaluate("document.activeElement.dataset.reached = 'yes'")
    missed = page.eval_on_selector_all(CONTROLS, "all => all.filter(e => !e.dataset.reached).map(e => e.outerHTML)")
    assert count > 6
    assert missed == []


@pytest.mark.parametrize("path", VIEWS.values(), ids=VIEWS)
def test_every_control_has_a_name_for_screen_readers(opened: Open, path: str) -> None:
    page = opened(path).page
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    named = {"button": 0, "link": 0}
    for node in tree:
        role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value")
        if role in ROLES:
            assert name, node
            named[role] = named.get(role, 0) + 1
    assert named["button"]
    assert named["link"] >= 6


@pytest.mark.parametrize("path", ["/", "/nodes/gpu-04", "/pods", "/pods/vision/notebook", f"/datasets?q={HOSTILE}"])
def test_a_hostile_text_is_shown_and_never_runs(opened: Open, path: str) -> None:
    witness = opened(path)
    assert witness.page.evaluate("window.attacked") is None
    assert witness.page.locator("main img").count() == 0
    assert witness.errors == []


def test_a_hostile_message_is_text(opened: Open) -> None:
    page = opened("/pods").page
    expect(page.get_by_role("table", name="Held pods")).to_contain_text("<script>window.attacked = true</script>")


def test_a_change_appears_without_a_reload(opened: Open, kube: UserKube) -> None:
    page = opened("/datasets").page
    page.evaluate("window.sameDocument = true")
    kube.seed(DATASETS, dataset("vision", "brand-new"))
    expect(page.get_by_role("link", name="vision/brand-new")).to_be_visible()
    assert page.evaluate("window.sameDocument") is True


def test_paused_updates_leave_the_page_as_it_is(opened: Open, kube: UserKube) -> None:
    page = opened("/datasets").page
    page.get_by_role("button", name="Pause updates").click()
    expect(page.locator("#state")).to_have_text("Paused")
    kube.seed(DATASETS, dataset("vision", "unseen"))
    other = opened("/datasets").page  # shows when the server knows it
    expect(other.get_by_role("link", name="vision/unseen")).to_be_visible()
    assert page.get_by_role("link", name="vision/unseen").count() == 0


def test_a_focused_control_stays_focused_through_an_update(opened: Open, kube: UserKube) -> None:
    page = opened("/pods").page
    page.get_by_role("link", name="vision/resnet-3").focus()
    kube.seed(PODS, held("another"))
    expect(page.get_by_role("link", name="vision/another")).to_be_visible()
    assert page.evaluate("document.activeElement.textContent") == "vision/resnet-3"


def pressed(witness: Witness, button: str) -> Page:
    """Press a button by keyboard. Return its page."""
    page = witness.page
    page.get_by_role("button", name=button, exact=True).focus()
    page.keyboard.press("Enter")
    return page


def test_a_dataset_is_paused_and_resumed_by_keyboard(opened: Open, kube: UserKube) -> None:
    witness = opened("/datasets/vision/laion-part")
    page = pressed(witness, "Pause")
    expect(page.get_by_role("status")).to_contain_text("vision/laion-part is paused.")
    [stored] = [item for item in kube.objects(DATASETS) if item["metadata"]["name"] == "laion-part"]
    assert stored["spec"]["warm"] == {"paused": True}
    page.get_by_role("link", name="Back").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("warming again")
    assert witness.errors == []


def test_a_held_pod_is_released(opened: Open) -> None:
    page = pressed(opened("/pods/vision/resnet-3"), "Release")
    expect(page.get_by_role("status")).to_contain_text("Released resnet-3")


def test_a_button_without_its_right_is_disabled_and_says_why(opened_without_rights: Open) -> None:
    page = opened_without_rights("/datasets/vision/imagenet").page
    button = page.get_by_role("button", name="Pause", exact=True)
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(
        "You may not change this. Ask for the verb patch on datasets.stoker.dev in namespace vision, which the "
        "ClusterRole edit includes."
    )


def test_a_forced_action_without_its_right_is_refused(opened_without_rights: Open) -> None:
    page = opened_without_rights("/datasets/vision/imagenet").page
    page.get_by_role("button", name="Pause updates").click()
    page.evaluate("document.querySelectorAll('main button').forEach((button) => { button.disabled = false })")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("main")).to_contain_text("Ask for the verb patch on datasets.stoker.dev")
