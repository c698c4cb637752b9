"""What the flags of `unslow fleet` mean."""

from pathlib import Path

import pytest

from unslow.commands.fleet import FleetRequest as Asked
from unslow.facts.errors import UserError
from unslow.fleet.settings import FleetSettings, asked_access, options_of, seconds_of

URL = "http://127.0.0.1:9090"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("15m", 900.0), ("1h30m", 5400.0), ("2d", 172_800.0), ("90s", 90.0), ("90", 90.0), (" 1w ", 604_800.0)],
)
def test_spans_as_prometheus_writes_them(written, seconds):
    assert seconds_of(written, "--window") == seconds


@pytest.mark.parametrize("written", ["", "x", "15 minutes", "-5m", "1.5h", "m", "9" * 30 + "s"])
def test_what_is_no_span(written):
    with pytest.raises(UserError) as raised:
        seconds_of(written, "--window")
    assert "--window" in raised.value.message
    assert "1h30m" in raised.value.hint


def test_the_usual_request(monkeypatch):
    monkeypatch.setenv("UNSLOW_PROMETHEUS_URL", URL)
    request = FleetSettings.of(Asked.from_flags({}))
    assert request.access.url == URL
    assert (request.options.window_s, request.options.compare_s, request.workers) == (900.0, 86_400.0, 0)


def test_everything_that_can_be_said(tmp_path: Path):
    secret = tmp_path / "token"
    secret.write_text("hidden\n")
    flags = {
        "prometheus": URL, "token_file": str(secret), "header": ["X-Scope-OrgID: team-a"], "insecure": True,
        "timeout": "2m", "window": "1h", "compare": "none", "match": 'cluster="a"', "engines": 'namespace="llm"',
        "join": "host=machine", "workers": 3,
    }  # fmt: skip
    request = FleetSettings.of(Asked.from_flags(flags))
    assert request.access.bearer == "hidden"
    assert request.access.headers == (("X-Scope-OrgID", "team-a"),)
    assert request.access.check_certificate is False
    assert (request.access.timeout_s, request.access.whole_s) == (120.0, 480.0)
    assert (request.options.window_s, request.options.compare_s, request.workers) == (3600.0, 0.0, 3)
    assert (request.options.match, request.options.engines) == ('cluster="a"', 'namespace="llm"')
    assert "hidden" not in repr(request)


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({"window": "10s"}, "--window 10s"),
        ({"window": "30d"}, "--window 30d"),
        ({"compare": "1m"}, "--compare 1m"),
        ({"compare": "9y"}, "--compare 9y"),
    ],
)
def test_times_that_make_no_sense(flags, word):
    with pytest.raises(UserError) as raised:
        options_of(Asked.from_flags(flags))
    assert word in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({}, "no Prometheus is named"),
        ({"prometheus": "ftp://here"}, "not an http://"),
        ({"prometheus": URL, "timeout": "0"}, "--timeout 0"),
        ({"prometheus": URL, "timeout": "5h"}, "--timeout 5h"),
        ({"prometheus": URL, "token_file": "/nowhere/token"}, "/nowhere/token"),
        ({"prometheus": URL, "header": ["no colon"]}, "header"),
    ],
)
def test_addresses_and_secrets_that_can_not_be(flags, word):
    with pytest.raises(UserError) as raised:
        asked_access(Asked.from_flags(flags), {})
    assert word in raised.value.message


def test_workers_are_a_number_that_can_be(wording):
    with pytest.raises(UserError) as raised:
        Asked.from_flags({"prometheus": URL, "workers": 0})
    wording(raised.value.message, tells=("--workers", "256"))


def test_a_secret_in_the_address_is_not_shown():
    request = FleetSettings.of(Asked.from_flags({"prometheus": "http://me:secret@127.0.0.1:9090/"}))
    assert request.access.shown_url == "http://127.0.0.1:9090"
    assert request.access.password == "secret"
