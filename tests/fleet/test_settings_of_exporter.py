"""What the flags mean, and which make no sense."""

import pytest

from unslow.commands._dispatch import parse_words
from unslow.facts.errors import UserError
from unslow.fleet.exporter import as_json, as_words
from unslow.fleet.settings import Address, ExporterSettings, parsed_address
from unslow.live.watcher import watched_url


def request(*words: str) -> ExporterSettings:
    return ExporterSettings.of(parse_words(["exporter", *words])[1])


def test_as_it_is_without_flags(wording):
    asked = request()
    assert (asked.listen, asked.every_s, asked.measure_every_s) == (Address("127.0.0.1", 9877), 60.0, None)
    assert asked.listen.is_loopback
    wording(as_words(asked, 9877), tells="http://127.0.0.1:9877/metrics")


def test_all_of_them(wording):
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
def test_the_dialect_of_what_is_written(words, dialect):
    assert request(*words).dialect == dialect


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-o", "x.prom"], "-o belongs to --once"),
        (["--once", "--measure-every", "6h"], "--once measures nothing"),
        (["--once", "--format", "html"], "there is no format 'html'"),
        (["--every", "1s"], "--every 1s makes no sense"),
        (["--every", "soon"], "no span of time"),
        (["--measure-every", "5s"], "--measure-every 5s makes no sense"),
        (["--listen", "here"], "is no address"),
        (["--listen", "127.0.0.1:99999"], "is no address"),
        (["seen.json"], "seen.json does not run"),
    ],
)
def test_flags_that_make_no_sense(words, why):
    with pytest.raises(UserError, match=why):
        request(*words)


def test_a_port_alone_is_of_loopback():
    assert parsed_address("9000") == ("127.0.0.1", 9000)
    assert parsed_address("[::1]:9000") == ("::1", 9000)
    assert Address("::1", 1).url(2) == "http://[::1]:2"
