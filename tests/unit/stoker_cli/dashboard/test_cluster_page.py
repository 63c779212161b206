"""Users of the page in the cluster see and change what their tokens allow, and nothing of each other."""

from collections.abc import Iterator

import pytest

from stoker_cli.dashboard.cluster import user_sessions
from stoker_cli.dashboard.cluster.sign_in import COOKIE, MOST_TOKEN, namespace_of
from stoker_kube.errors import Forbidden, Unavailable
from stoker_kube.resources import DATASETS
from tests.support.cases import cases
from tests.support.waiting import wait_until
from tests.unit.stoker_cli.dashboard.cluster_page import READER, USERS, SharedPage, shared_page
from tests.unit.stoker_cli.dashboard.users import dataset

IMAGENET = "/datasets/vision/imagenet"


@pytest.fixture
def page() -> Iterator[SharedPage]:
    with shared_page() as page:
        yield page


def stored(page: SharedPage, name: str) -> object:
    [item] = [item for item in page.objects.objects(DATASETS) if item["metadata"]["name"] == name]
    return item["spec"].get("warm")


@cases("token, shown", ("admin-token", {"vision", "text"}), ("reader-token", {"vision"}), ("nobody-token", set()))
def test_a_user_sees_what_the_token_may_read(page: SharedPage, token: str, shown: set[str]) -> None:
    html = page.browser().sign_in(token).text("/datasets")
    assert {namespace for namespace in ("vision", "text") if f'href="/datasets/{namespace}/' in html} == shown


@cases("token, changed", ("admin-token", True), ("reader-token", False), ("nobody-token", False))
def test_a_user_changes_what_the_token_may_change(page: SharedPage, token: str, changed: bool) -> None:
    answer = page.browser().sign_in(token).post(f"{IMAGENET}/pause")
    assert answer.status_code == (200 if changed else 403)
    assert stored(page, "imagenet") == ({"paused": True} if changed else None)


def test_no_session_shows_the_data_of_another(page: SharedPage) -> None:
    reader, admin = page.browser().sign_in("reader-token"), page.browser().sign_in("admin-token")
    for _ in range(2):
        assert "text/wiki" in admin.text("/datasets")
        assert "text/wiki" not in reader.text("/datasets")
        assert reader.get("/datasets/text/wiki").status_code == 403
    assert READER not in admin.text("/")


def test_the_pages_name_the_user_and_the_namespace(page: SharedPage) -> None:
    html = page.browser().sign_in("reader-token").text("/")
    assert READER in html
    assert "namespace vision" in html


@cases(
    "user, given, namespace",
    (READER, "", "vision"),
    (READER, "text", "text"),
    ("alice", "", "default"),
    ("system:serviceaccount:../x:y", "", "default"),
    ("xsystem:serviceaccount:vision:y", "", "default"),
)
def test_the_namespace_is_the_given_one_or_that_of_the_account(user: str, given: str, namespace: str) -> None:
    assert namespace_of(user, given) == namespace


@pytest.mark.parametrize("path", ["/", "/datasets", IMAGENET, "/pods"])
def test_without_a_session_a_page_leads_to_the_form(page: SharedPage, path: str) -> None:
    page.browser().sign_in("admin-token")
    answer = page.browser().get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


def test_without_a_session_nothing_is_changed_or_streamed(page: SharedPage) -> None:
    browser = page.browser()
    assert browser.post(f"{IMAGENET}/pause", "made-up").status_code == 401
    assert browser.get("/events").status_code == 401
    assert stored(page, "imagenet") is None


def test_a_made_up_session_is_none(page: SharedPage) -> None:
    browser = page.browser()
    browser.http.cookies.set(COOKIE, "made-up")
    assert browser.get("/").status_code == 303


def test_the_cookie_is_secure_strict_and_hidden_and_has_no_token(page: SharedPage) -> None:
    cookie = page.browser().submit("admin-token").headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "admin-token" not in cookie


def test_no_page_has_the_token(page: SharedPage) -> None:
    browser = page.browser().sign_in("admin-token")
    pages = [browser.text(path) for path in ("/", IMAGENET, "/pods", "/sign-in")]
    assert not [html for html in pages if "admin-token" in html]
    assert "wrong-token" not in page.browser().submit("wrong-token").text


@cases(
    "token, namespace, status",
    ("wrong-token", "", 401),
    ("", "", 400),
    ("two words", "", 400),
    ("line\r\nbreak", "", 400),
    ("x" * (MOST_TOKEN + 1), "", 400),
    ("x" * 100_000, "", 413),
    ("admin-token", "../kube-system", 400),
)
def test_a_wrong_form_starts_no_session(page: SharedPage, token: str, namespace: str, status: int) -> None:
    browser = page.browser()
    assert browser.submit(token, namespace).status_code == status
    assert len(page.sessions) == 0
    assert browser.cookie == ""


@cases("headers", {"origin": "https://evil.example"}, {"origin": ""}, {"sec-fetch-site": "same-site"})
def test_a_foreign_page_cannot_sign_in_or_change(page: SharedPage, headers: dict[str, str]) -> None:
    assert page.browser().submit("admin-token", **headers).status_code == 403
    assert page.browser().sign_in("admin-token").post(f"{IMAGENET}/pause", **headers).status_code == 403
    assert stored(page, "imagenet") is None


def test_the_form_token_of_another_session_changes_nothing(page: SharedPage) -> None:
    one, other = page.browser().sign_in("admin-token"), page.browser().sign_in("admin-token")
    assert one.post(f"{IMAGENET}/pause", other.csrf).status_code == 403
    assert one.post("/sign-out", other.csrf).status_code == 403
    assert one.get("/").status_code == 200


def test_signing_out_ends_the_session_for_copies_of_its_cookie(page: SharedPage) -> None:
    browser = page.browser().sign_in("admin-token")
    copy = page.browser()
    copy.http.cookies.set(COOKIE, browser.cookie)
    answer = browser.post("/sign-out")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert copy.get("/").status_code == 303
    assert len(page.sessions) == 0


def test_a_signed_out_browser_leaves_other_sessions_alone(page: SharedPage) -> None:
    one, other = page.browser().sign_in("admin-token"), page.browser().sign_in("admin-token")
    one.post("/sign-out")
    assert other.get("/").status_code == 200


@pytest.mark.parametrize("seconds", [user_sessions.IDLE_SECONDS, user_sessions.LIFE_SECONDS])
def test_an_unused_session_ends(page: SharedPage, seconds: float) -> None:
    browser = page.browser().sign_in("admin-token")
    page.clock.now += seconds
    assert browser.get("/").status_code == 303


def test_a_session_in_use_ends_after_its_life(page: SharedPage) -> None:
    browser = page.browser().sign_in("admin-token")
    used = []
    for _ in range(int(user_sessions.LIFE_SECONDS // 1000) + 1):
        page.clock.now += 1000
        used.append(browser.get("/").status_code)
    assert set(used[:-1]) == {200}
    assert used[-1] == 303


def test_a_revoked_token_ends_its_session_within_a_minute(page: SharedPage) -> None:
    browser = page.browser().sign_in("admin-token")
    page.users["admin-token"].valid = False
    page.clock.now += user_sessions.CHECK_SECONDS
    assert browser.get("/datasets").status_code == 303
    assert len(page.sessions) == 0


@pytest.mark.parametrize("error", [Unavailable(503, "Unavailable", "down"), Forbidden(403, "Forbidden", "no reviews")])
def test_an_outage_keeps_the_session(page: SharedPage, error: Exception) -> None:
    browser = page.browser().sign_in("admin-token")
    page.users["admin-token"].fail_next("create", None, error)  # type: ignore[arg-type]
    page.clock.now += user_sessions.CHECK_SECONDS
    assert browser.get("/datasets").status_code == 200


def test_during_an_outage_nobody_signs_in(page: SharedPage) -> None:
    page.users["admin-token"].outage = Unavailable(503, "Unavailable", "10.0.0.1 is down")
    answer = page.browser().submit("admin-token")
    assert answer.status_code == 502
    assert "The API server did not answer." in answer.text
    assert "10.0.0.1" not in answer.text


def test_a_right_that_is_taken_away_hides_its_objects(page: SharedPage) -> None:
    browser = page.browser().sign_in("admin-token")
    page.users["admin-token"]._reads = {}
    wait_until(lambda: "text/wiki" not in browser.text("/datasets"))


def test_a_session_follows_changes(page: SharedPage) -> None:
    browser = page.browser().sign_in("reader-token")
    page.objects.seed(DATASETS, dataset("vision", "new"))
    wait_until(lambda: "vision/new" in browser.text("/datasets"))


def test_more_sessions_of_a_user_end_the_oldest_one(page: SharedPage) -> None:
    first, *others = (page.browser().sign_in("admin-token") for _ in range(user_sessions.MOST_OF_USER + 1))
    assert first.get("/").status_code == 303
    assert {browser.get("/").status_code for browser in others} == {200}


def test_the_number_of_sessions_is_bounded(page: SharedPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_sessions, "MOST_SESSIONS", 1)
    browser = page.browser().sign_in("admin-token")
    answer = page.browser().submit("reader-token")
    assert (answer.status_code, "Too many users" in answer.text) == (503, True)
    assert browser.get("/").status_code == 200


def test_the_requests_of_a_session_are_bounded_and_others_unaffected(page: SharedPage) -> None:
    browser, other = page.browser().sign_in("admin-token"), page.browser().sign_in("reader-token")
    assert 429 in [browser.get("/nodes").status_code for _ in range(61)]
    assert other.get("/").status_code == 200
    page.clock.now += 1
    assert browser.get("/nodes").status_code == 200


def test_tries_to_sign_in_are_bounded(page: SharedPage) -> None:
    browser = page.browser()
    answers = [browser.submit("two words").status_code for _ in range(60)]
    assert 429 in answers


def test_the_health_check_needs_no_session_and_no_api_server(page: SharedPage) -> None:
    assert page.browser().get("/healthz").text == "ok"
    assert not any(user.requests for user in page.users.values())


@pytest.mark.parametrize("path", ["/", "/sign-in", "/static/dashboard.css", "/events"])
def test_every_answer_has_the_headers_of_the_local_page(page: SharedPage, path: str) -> None:
    headers = page.browser().get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert (headers["x-frame-options"], headers["cache-control"]) == ("DENY", "no-store")


def test_every_request_of_a_session_has_its_own_token(page: SharedPage) -> None:
    page.browser().sign_in("reader-token").text(IMAGENET)
    used = {token for token in USERS if page.users[token].requests}
    assert used == {"reader-token"}
    assert not page.objects.requests
