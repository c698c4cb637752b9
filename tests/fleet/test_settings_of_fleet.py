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
def test_durations_are_parsed_as_in_prometheus(written, seconds):
    assert seconds_of(written, "--window") == seconds


@pytest.mark.parametrize("written", ["", "x", "15 minutes", "-5m", "1.5h", "m", "9" * 30 + "s"])
def test_invalid_duration_is_a_user_error(written):
    with pytest.raises(UserError) as raised:
        seconds_of(written, "--window")
    assert "--window" in raised.value.message
    assert "1h30m" in raised.value.hint


def test_fleet_defaults(monkeypatch):
    monkeypatch.setenv("UNSLOW_PROMETHEUS_URL", URL)
    request = FleetSettings.of(Asked.from_flags({}))
    assert request.access.url == URL
    assert (request.options.window_s, request.options.compare_s, request.workers) == (900.0, 86_400.0, 0)


def test_every_fleet_flag_is_parsed(tmp_path: Path):
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
        ({"window": "10s"}, "(got 10s)"),
        ({"window": "30d"}, "(got 30d)"),
        ({"compare": "1m"}, "(got 1m)"),
        ({"compare": "9y"}, "(got 9y)"),
    ],
)
def test_window_and_compare_out_of_range_are_user_errors(flags, word):
    with pytest.raises(UserError) as raised:
        options_of(Asked.from_flags(flags))
    assert word in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({}, "no Prometheus given"),
        ({"prometheus": "ftp://here"}, "not an http://"),
        ({"prometheus": URL, "timeout": "0"}, "(got 0)"),
        ({"prometheus": URL, "timeout": "5h"}, "(got 5h)"),
        ({"prometheus": URL, "token_file": "/nowhere/token"}, "/nowhere/token"),
        ({"prometheus": URL, "header": ["no colon"]}, "header"),
    ],
)
def test_invalid_addresses_and_secrets_are_user_errors(flags, word):
    with pytest.raises(UserError) as raised:
        asked_access(Asked.from_flags(flags), {})
    assert word in raised.value.message


def test_workers_must_be_between_1_and_256(wording):
    with pytest.raises(UserError) as raised:
        Asked.from_flags({"prometheus": URL, "workers": 0})
    wording(raised.value.message, tells=("--workers", "256"))


def test_a_secret_in_the_address_is_not_shown():
    request = FleetSettings.of(Asked.from_flags({"prometheus": "http://me:secret@127.0.0.1:9090/"}))
    assert request.access.shown_url == "http://127.0.0.1:9090"
    assert request.access.password == "secret"
