"""Only the browser with the printed address sees the page, and foreign pages cannot use it."""

import pytest

from stoker_cli.dashboard.core.request_checks import RequestFacts, loopback_hosts, refusal
from stoker_kube.resources import DATASETS
from tests.support.cases import cases
from tests.unit.stoker_cli.dashboard.users import ORIGIN, PORT, Browser, cluster

PATHS = ["/", "/datasets", "/nodes", "/jobs", "/pods", "/datasets/vision/imagenet", "/events"]


@pytest.mark.parametrize("path", PATHS)
def test_without_the_cookie_no_page_is_shown(path: str) -> None:
    assert Browser(cluster()).http.get(path).status_code == 401


def test_the_address_signs_in() -> None:
    assert "Warm map" in Browser(cluster()).sign_in().text("/")


def test_the_address_works_once() -> None:
    browser = Browser(cluster()).sign_in()
    browser.http.cookies.clear()
    assert browser.http.get(browser.login).status_code == 403


def test_a_signed_in_browser_may_open_the_address_again() -> None:
    browser = Browser(cluster()).sign_in()
    assert browser.http.get(browser.login).status_code == 200


def test_a_wrong_token_does_not_use_up_the_address() -> None:
    browser = Browser(cluster())
    assert browser.http.get("/login?token=wrong").status_code == 403
    assert browser.http.get(browser.login).status_code == 200


def test_the_cookie_is_strict_and_hidden_from_scripts() -> None:
    browser = Browser(cluster())
    cookie = browser.http.get(browser.login).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_a_cookie_of_another_run_is_refused() -> None:
    browser = Browser(cluster())
    browser.http.cookies.set(browser.session.cookie, "made-up")
    assert browser.http.get("/").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""])
def test_a_foreign_host_name_is_refused(host: str) -> None:
    assert Browser(cluster()).sign_in().http.get("/", headers={"host": host}).status_code == 421


def test_localhost_is_this_server() -> None:
    facts = RequestFacts("POST", (f"localhost:{PORT}",), f"http://localhost:{PORT}", "same-origin")
    assert refusal(facts, loopback_hosts(PORT)) is None


def test_two_host_headers_are_refused() -> None:
    assert refusal(RequestFacts("GET", (f"localhost:{PORT}", "evil.example")), loopback_hosts(PORT)) is not None


@pytest.mark.parametrize("path", ["/", "/static/dashboard.js", "/nothing"])
def test_every_answer_has_the_security_headers(path: str) -> None:
    headers = Browser(cluster()).sign_in().http.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@cases(
    "headers",
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": f"http://127.0.0.1:{PORT + 1}"},
    {"origin": f"https://127.0.0.1:{PORT}"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
)
def test_a_form_of_a_foreign_page_changes_nothing(headers: dict[str, str]) -> None:
    browser = Browser(cluster()).sign_in()
    assert browser.post("/datasets/vision/imagenet/pause", **headers).status_code == 403
    assert ("patch", "datasets") not in browser.kube.requests


@pytest.mark.parametrize("form", [{}, {"csrf": "wrong"}, {"csrf": ""}])
def test_a_form_without_the_token_changes_nothing(form: dict[str, str]) -> None:
    browser = Browser(cluster()).sign_in()
    answer = browser.http.post("/datasets/vision/imagenet/pause", data=form, headers={"origin": ORIGIN})
    assert answer.status_code == 403
    assert ("patch", "datasets") not in browser.kube.requests


def test_a_form_without_an_origin_changes_nothing() -> None:
    browser = Browser(cluster()).sign_in()
    answer = browser.http.post("/datasets/vision/imagenet/pause", data={"csrf": browser.session.csrf})
    assert answer.status_code == 403


def test_a_large_form_is_refused() -> None:
    browser = Browser(cluster()).sign_in()
    answer = browser.http.post("/pods/vision/reader/release", data={"csrf": "x" * 5000}, headers={"origin": ORIGIN})
    assert answer.status_code == 413


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(method: str) -> None:
    browser = Browser(cluster()).sign_in()
    assert browser.http.request(method, "/", headers={"origin": ORIGIN}).status_code == 405


def test_a_page_is_no_action() -> None:
    browser = Browser(cluster()).sign_in()
    assert browser.http.get("/datasets/vision/imagenet/pause").status_code == 405
    assert browser.kube.objects(DATASETS)[1]["spec"].get("warm") is None


@pytest.mark.parametrize("path", ["/", "/datasets", "/datasets/vision/imagenet", "/nodes/node-1", "/pods", "/jobs"])
def test_a_page_loads_nothing_from_elsewhere_and_has_no_inline_code(path: str) -> None:
    html = Browser(cluster()).sign_in().text(path)
    assert "http://" not in html.replace("http://127.0.0.1", "")
    assert "https://" not in html
    assert " style=" not in html
    assert " on" not in "".join(part.split(">")[0] for part in html.split("<") if part.startswith("button"))
    assert html.count("<script") == html.count('<script src="/static/') == 1


def test_static_files_are_only_the_known_ones() -> None:
    browser = Browser(cluster())
    assert browser.http.get("/static/dashboard.css").headers["content-type"].startswith("text/css")
    assert browser.http.get("/static/base.html").status_code == 404
    assert browser.http.get("/static/..%2frendering.py").status_code == 404
