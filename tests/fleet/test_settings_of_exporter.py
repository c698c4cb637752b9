"""The flags of `unslow exporter`, valid and invalid."""

import pytest

from unslow.commands._dispatch import parse_words
from unslow.facts.errors import UserError
from unslow.fleet.exporter import as_json, as_words
from unslow.fleet.settings import Address, ExporterSettings
from unslow.live.watcher import watched_url


def request(*words: str) -> ExporterSettings:
    return ExporterSettings.of(parse_words(["exporter", *words])[1])


def test_exporter_defaults(wording):
    asked = request()
    assert (asked.listen, asked.every_s, asked.measure_every_s) == (Address("127.0.0.1", 9877), 60.0, None)
    assert asked.listen.is_loopback
    wording(as_words(asked, 9877), tells="http://127.0.0.1:9877/metrics")


def test_every_exporter_flag_is_parsed(wording):
    asked = request("127.0.0.1:8080", "--listen", "[::]:1234", "--every", "2m", "--measure-every", "6h")
    assert (watched_url(asked.watch), asked.every_s, asked.measure_every_s) == ("http://127.0.0.1:8080", 120.0, 21600.0)
    words = as_words(asked, 1234)
    assert "http://[::]:1234/metrics" in words
    wording(words)
    assert '"port": 1234' in as_json(asked, 1234)


@pytest.mark.parametrize(
    ("words", "dialect"),
    [
        (["--once"], "openmetrics"),
        (["--once", "-o", "-"], "openmetrics"),
        (["--once", "-o", "x.prom"], "text"),
        (["--once", "-o", "x.prom", "--format", "openmetrics"], "openmetrics"),
        (["--once", "--format", "text"], "text"),
    ],
)
def test_dialect_of_the_written_file(words, dialect):
    assert request(*words).dialect == dialect


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-o", "x.prom"], "-o needs --once"),
        (["--once", "--measure-every", "6h"], "--measure-every cannot be combined"),
        (["--once", "--format", "html"], "unknown format 'html'"),
        (["--every", "1s"], "--every must be between 10s and 1h"),
        (["--every", "soon"], "must be a duration"),
        (["--measure-every", "5s"], "--measure-every must be between"),
        (["--listen", "here"], "--listen must be HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "--listen must be HOST:PORT"),
        (["seen.json"], "seen.json is not a live server"),
    ],
)
def test_invalid_exporter_flags_are_user_errors(words, why):
    with pytest.raises(UserError, match=why):
        request(*words)


def test_port_alone_listens_on_loopback():
    assert request("--listen", "9000").listen == ("127.0.0.1", 9000)
    assert request("--listen", "[::1]:9000").listen == ("::1", 9000)
    assert Address("::1", 1).url(2) == "http://[::1]:2"
