"""A foreign page in the same browser can do nothing to the server, even if it knows the token."""

import pytest
from real_browser import REBOUND, Watched
from web_server import web_server

from browser.served import Served

ATTACK = """
async ([base, token]) => {
  const wanted = JSON.stringify({kind: "bench"});
  const json = {"Content-Type": "application/json"};
  const tries = {
    "read": [`${base}/api/v1/report`, {headers: {"X-Unslow-Token": token}}],
    "simple read": [`${base}/api/v1/report?token=${token}`, {}],
    "the page": [`${base}/?token=${token}`, {}],
    "blind page": [`${base}/?token=${token}`, {mode: "no-cors"}],
    "post": [`${base}/api/v1/runs`, {method: "POST", body: wanted, headers: json}],
    "post with the token": [`${base}/api/v1/runs`, {method: "POST", body: wanted, headers: {...json, "X-Unslow-Token": token}}],
    "blind post": [`${base}/api/v1/runs`, {method: "POST", body: wanted, mode: "no-cors"}],
    "delete": [`${base}/api/v1/runs/1`, {method: "DELETE", headers: {"X-Unslow-Token": token}}],
  };
  const said = {};
  for (const [name, [url, options]] of Object.entries(tries)) {
    try { const answer = await fetch(url, options); said[name] = `${answer.type} ${answer.status}`; }
    catch { said[name] = "failed"; }
  }
  navigator.sendBeacon(`${base}/api/v1/runs`, wanted);
  said.socket = await new Promise((done) => {
    const socket = new WebSocket(base.replace("http", "ws") + `/?token=${token}`);
    socket.onopen = () => done("open");
    socket.onerror = () => done("failed");
  });
  return said;
}
"""  # noqa: E501 (a line of a table)
EMBED = """
async (url) => {
  const loaded = (name, more) => new Promise((done) => {
    const one = Object.assign(document.createElement(name), more);
    one.onload = () => done("loaded");
    one.onerror = () => done("failed");
    document.body.append(one);
  });
  return [await loaded("img", {src: url}), await loaded("script", {src: url}),
    await loaded("link", {rel: "stylesheet", href: url})];
}
"""


def other_page():
    """A page of another origin, on the same machine."""
    page = {"/": b"<!doctype html><title>other</title><body></body>"}
    return web_server(page, lambda handler, data: handler.answer(200, data, content_type="text/html"))


@pytest.fixture(scope="module")
def other():
    with other_page() as found:
        yield found


@pytest.fixture
def tab(browser):
    seen = Watched(browser)
    yield seen.tab
    seen.context.close()


@pytest.fixture(params=["127.0.0.1", "localhost"])
def elsewhere(request, tab, other):
    """A tab with another page open: the same machine and another port, by both names."""
    tab.goto(other.url.replace("127.0.0.1", request.param))
    return tab


def test_foreign_page_can_not_read_or_start_anything(elsewhere, live):
    before = live.get("runs")
    for base in (live.base, live.base.replace("127.0.0.1", "localhost")):
        said = elsewhere.evaluate(ATTACK, [base, live.token])
        assert len(said) == 9
        assert set(said.values()) == {"failed"}  # not even an answer that nobody can look into
    assert live.get("runs") == before


def test_localhost_and_127_0_0_1_are_different_origins(tab, shown):
    tab.goto(shown.url.replace("127.0.0.1", "localhost"))
    said = tab.evaluate(
        "(url) => fetch(url).then((answer) => answer.status, () => 'failed')", f"{shown.base}/api/v1/view"
    )
    assert said == "failed"


def test_page_can_not_be_framed(elsewhere, shown):
    assert elsewhere.evaluate(EMBED, shown.url) == ["failed"] * 3
    elsewhere.evaluate("(url) => { document.body.innerHTML = `<iframe src='${url}'></iframe>`; }", shown.url)
    frame = elsewhere.frames[-1]
    frame.wait_for_load_state()
    assert "verdict" not in frame.content()


def test_link_or_form_on_a_foreign_page_does_not_open_it(elsewhere, shown):
    for html in (
        f"<a id=go href='{shown.url}'>go</a>",
        f"<form method=post enctype=text/plain action='{shown.base}/api/v1/runs'><button id=go>go</button></form>",
    ):
        elsewhere.evaluate("(html) => { document.body.innerHTML = html; }", html)
        with elsewhere.expect_navigation() as there:
            elsewhere.click("#go")
        assert there.value.status == 403
        assert "verdict" not in elsewhere.content()
        elsewhere.go_back()


def test_window_opened_by_a_foreign_page_reveals_nothing(elsewhere, shown):
    with elsewhere.context.expect_page() as there:
        elsewhere.evaluate("(url) => { window.there = open(url); }", shown.url)
    there.value.wait_for_load_state()
    assert "verdict" not in there.value.content()
    assert elsewhere.evaluate("(() => { try { return there.document.title; } catch { return 'none'; } })()") != "unslow"


def test_rebound_host_name_is_refused(tab, shown):
    answer = tab.goto(shown.url.replace("127.0.0.1", REBOUND))
    assert answer.status == 421
    assert "verdict" not in tab.content()
    base = shown.base.replace("127.0.0.1", REBOUND)
    said = tab.evaluate(
        "([url, token]) => fetch(url, {headers: {'X-Unslow-Token': token}}).then((answer) => answer.status, String)",
        [f"{base}/api/v1/report", shown.token],
    )
    assert said == 421 or "Failed to fetch" in said  # where the policy of the refusal stops it before


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?view=buy"])
def test_page_needs_the_token(tab, shown: Served, query):
    answer = tab.goto(f"{shown.base}/{query}")
    assert answer.status == 401
    assert "unslow serve" in tab.inner_text("body")
    assert tab.locator("article, form, script").count() == 0
