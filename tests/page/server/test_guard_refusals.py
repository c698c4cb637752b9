"""The real server refuses every request that is not from the user's own page or program."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.page.server.guard import LARGEST_BODY_BYTES, AskedRequest, ServerIdentity, refusal

OWN = ServerIdentity(8123, "a-token")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_loopback_host_names_are_accepted(page, host):
    headers = {"Host": f"{host}:{page.own.port}", "X-Unslow-Token": page.own.token}
    assert page.raw("GET", "/api/v1/report", headers).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1", "0.0.0.0", "localhost:1", ""])
def test_foreign_host_header_is_refused(page, host):
    host = host if ":" in host or host in ("127.0.0.1", "") else f"{host}:{page.own.port}"
    said = page.raw("GET", "/api/v1/report", {"Host": host, "X-Unslow-Token": page.own.token})
    assert said.status == 421
    assert b"subjects" not in said.body


def test_two_host_headers_are_refused(page):
    with socket.create_connection(("127.0.0.1", page.own.port), timeout=10) as connection:
        host = page.own.hosts[0]
        head = f"GET /?token={page.own.token} HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).split()[1] in (b"400", b"421")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"])
@pytest.mark.parametrize("path", ["/", "/api/v1/report"])
def test_foreign_origin_is_refused_without_cors_headers(page, origin, path):
    said = page.raw("GET", f"{path}?token={page.own.token}", {**page.usual, "Origin": origin})
    assert said.status == 403
    assert not [name for name in said.headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "other"])
def test_cross_site_fetch_metadata_is_refused(page, site):
    assert page.raw("GET", f"/?token={page.own.token}", {**page.usual, "Sec-Fetch-Site": site}).status == 403
    assert page.raw("GET", "/api/v1/report", {**page.usual, "Sec-Fetch-Site": site}).status == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_same_origin_request_is_accepted(page, site):
    own = {"Origin": page.own.origins[1], "Sec-Fetch-Site": site}
    assert page.raw("GET", "/api/v1/report", {**page.usual, **own}).status == 200


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/?token=wrong&token=x", "/?" + "a=1&" * 200])
def test_page_without_a_valid_token_in_its_url_is_401(page, path):
    said = page.raw("GET", path, page.usual)  # a header is not enough: a browser has none
    assert said.status == 401
    assert "unslow serve" in said.text
    assert page.own.token not in said.text


def test_repeated_token_parameter_is_refused(page):
    assert page.open().status == 200
    assert page.open("&token=wrong").status == 401


@pytest.mark.parametrize("token", ["", "wrong", "t\xf6ken"])
def test_api_needs_the_token_as_a_header(page, token):
    headers = {"Host": page.own.hosts[0], "X-Unslow-Token": token}
    for path in ("/api/v1/report", f"/api/v1/report?token={page.own.token}", "/nothing", "/api/v1/openapi.json"):
        said = page.raw("GET", path, headers)
        assert said.status == 401
        assert said.json["error"]["hint"]


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "PUT", "PATCH", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_are_refused_without_cors_headers(page, method):
    own = {"Origin": page.own.origins[0], "Access-Control-Request-Method": "POST"}
    said = page.raw(method, "/api/v1/runs", {**page.usual, **own})
    assert said.status == 405
    assert not [name for name in said.headers if name.startswith("access-control")]


def test_starting_a_run_needs_an_own_origin_and_json(page):
    wanted = {"kind": "diagnose"}
    body = b'{"kind":"diagnose"}'
    sized = {**page.usual, "Content-Length": str(len(body))}
    assert page.raw("POST", "/api/v1/runs", {**sized, "Content-Type": "application/json"}, body).status == 403
    assert page.send("POST", "/runs", wanted, **{"Content-Type": "text/plain"}).status == 415
    assert page.send("POST", "/runs", wanted, **{"Content-Type": "application/x-www-form-urlencoded"}).status == 415
    assert page.send("POST", "/runs", wanted, Origin="http://evil.example").status == 403
    assert page.raw("DELETE", "/api/v1/runs/x", page.usual).status == 403


def test_body_over_the_limit_is_413(page):
    assert page.send("POST", "/runs", "x" * LARGEST_BODY_BYTES).status == 413
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (2 * LARGEST_BODY_BYTES, b" " * 2 * LARGEST_BODY_BYTES)
    headers = {**page.usual, "Origin": page.own.origins[0], "Content-Type": "application/json"}
    said = page.raw("POST", "/api/v1/runs", {**headers, "Transfer-Encoding": "chunked"}, chunks)
    assert said.status == 413


def test_headers_over_the_limit_are_refused(page):
    said = page.raw("GET", "/api/v1/report", {**page.usual, "X-Long": "x" * 100_000})
    assert said.status in (400, 431)  # by the parser or by the guard, as it comes in one piece or several


@pytest.mark.parametrize("body", [b'{"kind":"\xff"}', b"\xff\xfe", b"[" * 15_000, b'{"kind":' * 1_800, b"", b"NaN"])
def test_invalid_json_body_is_400_with_a_hint(page, body):
    headers = {**page.usual, "Origin": page.own.origins[0], "Content-Type": "application/json"}
    said = page.raw("POST", "/api/v1/runs", {**headers, "Content-Length": str(len(body))}, body)
    assert (said.status, said.json["error"]["hint"]) == (400, "see /api/v1/openapi.json")


def test_very_long_path_is_414(page):
    assert page.get(f"/subjects/{'9' * 300}/what-if").status == 404
    assert page.get(f"/subjects/{'9' * 5_000}/what-if").status == 414


def test_every_response_has_the_security_headers(page):
    for said in (page.open(), page.get("/report"), page.get("/nothing"), page.raw("GET", "/", page.usual)):
        policy = said.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'nonce-")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert said.headers["cache-control"] == "no-store"
        assert said.headers["referrer-policy"] == "no-referrer"
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["cross-origin-resource-policy"] == "same-origin"
        assert said.headers["cross-origin-opener-policy"] == "same-origin"
        assert not {"set-cookie", "server", "access-control-allow-origin"} & set(said.headers)


def test_ticket_works_once(page):
    address = f"/?ticket={page.ticket.text}"
    assert page.raw("GET", address, {**page.usual, "Sec-Fetch-Site": "cross-site"}).status == 403
    assert page.raw("GET", "/?ticket=wrong", page.usual).status == 401
    assert page.raw("GET", f"/api/v1/report{address[1:]}", {"Host": page.own.hosts[0]}).status == 401
    first = page.raw("GET", address, {"Host": page.own.hosts[0]})
    assert first.status == 303
    assert first.headers["location"] == f"/?token={page.own.token}"
    assert page.raw("GET", address, {"Host": page.own.hosts[0]}).status == 401


def test_every_response_has_a_new_nonce(page):
    first, second = (page.open().headers["content-security-policy"] for _ in range(2))
    assert first != second


@settings(max_examples=60)
@given(
    host=st.one_of(st.sampled_from(OWN.hosts), st.text(max_size=30)),
    origin=st.one_of(st.none(), st.sampled_from(OWN.origins), st.text(max_size=30)),
    site=st.one_of(st.none(), st.sampled_from(["none", "same-origin", "cross-site"])),
    token=st.one_of(st.just("a-token"), st.text(max_size=12)),
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT"]),
)
def test_request_is_accepted_only_if_every_check_passes(host, origin, site, token, method):
    headers = {"host": host, "x-unslow-token": token, "content-type": "application/json"}
    headers |= {"origin": origin} if origin is not None else {}
    headers |= {"sec-fetch-site": site} if site else {}
    right = (
        host.lower() in OWN.hosts
        and (origin in OWN.origins or (origin is None and method == "GET"))
        and site != "cross-site"
        and token == "a-token"
        and method != "PUT"
    )
    assert (refusal(AskedRequest(method, "/api/v1/runs", "", headers), OWN) is None) == right
