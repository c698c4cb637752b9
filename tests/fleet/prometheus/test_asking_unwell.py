"""A real Prometheus that is unwell: a clear statement, and never an absence that is none."""

import time

import pytest
from two_hosts import BOTH, TWO, Proxy, asking, by_host

from unslow.facts.errors import UserError
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access


@pytest.mark.parametrize(
    ("deed", "kind", "words", "hint"),
    [
        ("too_many_samples", "limit", "samples in one query", "--window"),
        ("mimir_series", "limit", "series in one query", "--match"),
        ("thanos_series", "limit", "series in one query", "--match"),
        ("victoria_series", "limit", "series in one query", "--match"),
        ("mimir_length", "limit", "time that one query may span", "--window"),
        ("busy", "limit", "queries at a time", "less busy"),
        ("timed_out", "partial", "it took too long: query timed out", "--timeout"),
        ("unavailable", "partial", "503: at least 2 live replicas", "starting"),
        ("internal", "partial", "500: boom", "log"),
        ("half_json", "partial", "cut short", "between"),
        ("cut", "partial", "broke off in the middle", "--match"),
        ("packed_badly", "partial", "broke off in the middle", "--match"),
        ("page", "partial", "web page", "between"),
        ("empty", "partial", "empty", "between"),
        ("other_json", "partial", "not the JSON", "between"),
        ("error_with_200", "partial", "swallowed the status", "between"),
        ("slow:3", "partial", "did not answer within", "--timeout"),
        ("drip", "partial", "did not answer within", "--timeout"),
        ("bomb:10", "limit", "more than 2 MB", "--match"),
        ("huge:2000", "limit", "2,000 series, and at most 1,000", "--match"),
    ],
)
def test_one_query_fails_and_the_others_do_not(proxy: Proxy, deed: str, kind: str, words: str, hint: str):
    unwell = proxy(deed, only="999")
    fields = {"timeout_s": 1.5 if deed in ("slow:3", "drip") else 5.0, "restart_s": 0.6}
    with asking(unwell.url, most_bytes=2_000_000, most_series=1000, **fields) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        failed = prometheus.instant("vector(999)", about="unlucky")
        assert words in failed.failure
        assert hint in failed.hint
        assert failed.series == []
        assert by_host(prometheus.instant(TWO).series) == BOTH
        [statement] = prometheus.statements()
        assert (statement.kind, words in statement.text, hint in statement.hint) == (kind, True, True)
        assert "unlucky" in statement.text


@pytest.mark.parametrize(
    ("deed", "words", "hint"),
    [
        ("unauthorized", "does not know who asks (401)", "--token-file"),
        ("no_tenant", "no org id", "X-Scope-OrgID"),
        ("forbidden", "does not let us ask (403)", "--username"),
        ("elsewhere", "sends us to http://login.example.org/start, which is not followed", "log in"),
        ("to_nowhere", "sends us to nowhere, which is not followed", "another address"),
        ("to_tls", "sends us to https://127.0.0.1/api", "give https://127.0.0.1 itself"),
        ("page", "web page", "login"),
        ("starting", "503: Service Unavailable", "starting"),
        ("gateway", "answered 502", "starting"),
        ("reset", "broke off", "running"),
        ("close", "broke off", "running"),
        ("slow:1", "did not answer within", "--timeout"),
        ("busy", "queries at a time", "less busy"),
    ],
)
def test_a_server_that_answers_nobody_is_an_error_of_the_user(proxy: Proxy, deed: str, words: str, hint: str):
    patience = {"timeout_s": 0.5 if deed == "slow:1" else 5.0, "restart_s": 0.3}
    with asking(proxy(deed).url, **patience) as prometheus, pytest.raises(UserError) as error:
        prometheus.instant("vector(1)")
    assert words in error.value.message
    assert hint in error.value.hint
    assert "secret" not in error.value.message + error.value.hint


@pytest.mark.parametrize(
    "deeds",
    [["starting", "starting"], ["gateway"], ["reset", "reset"], ["close", "close"], ["busy"], ["cut"], ["unavailable"]],
)
def test_a_moment_of_weakness_is_waited_for(proxy: Proxy, deeds: list[str]):
    unwell, said = proxy(), list[str]()
    with Prometheus(Access(url=unwell.url), said.append) as prometheus:
        assert prometheus.now_s
        unwell.next.extend(deeds)
        assert by_host(prometheus.instant(TWO).series) == BOTH
        assert (len(unwell.next), prometheus.statements()) == (0, ())
    assert all("trying again for 20 s at most" in text for text in said)
    assert len(said) == 1


def test_a_restart_in_between_is_waited_for(proxy: Proxy):
    unwell = proxy()
    with asking(unwell.url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        unwell.away(0.3)
        assert by_host(prometheus.instant(TWO).series) == BOTH
        unwell.close()
        with pytest.raises(UserError, match="nothing listens there"):
            asking(unwell.url, restart_s=0.1).instant("vector(1)")
        assert unwell.connections == 2


def test_a_server_that_stays_busy_is_not_waited_for_each_time(proxy: Proxy, wording):
    unwell = proxy("busy", only="999")
    with asking(unwell.url, restart_s=1.8) as prometheus:
        failure = wording(prometheus.instant("vector(999)").failure)
        tries = prometheus.asked
        assert prometheus.instant("vector(999)").failure == failure
    assert prometheus.asked - tries <= 2 < tries - 1


def test_there_is_an_end_to_all_queries_together(proxy: Proxy, wording):
    unwell = proxy("slow:3", only="999")
    with asking(unwell.url, timeout_s=0.9, whole_s=0.9) as prometheus:
        assert "did not answer" in prometheus.instant("vector(999)").failure
        wording(prometheus.instant("vector(1)").failure, tells="0.9 s")
        assert {one.kind for one in prometheus.statements()} == {"partial"}


def test_partial_answers_are_used_and_stated(proxy: Proxy, wording):
    with asking(proxy("partial", only="label_replace").url) as prometheus:
        answered = prometheus.instant(TWO, about="hosts")
        assert by_host(answered.series) == BOTH
        assert not answered.failure
        prometheus.instant(f"{TWO} or vector(3)", about="more")
        [statement] = prometheus.statements()
        assert statement.kind == "partial"
        wording(statement.text, tells="store-1:10901")


def test_what_victoria_metrics_could_not_read_is_partial_too(proxy: Proxy, wording):
    with asking(proxy("partly_stored", only="label_replace").url) as prometheus:
        prometheus.instant(TWO, about="hosts")
        [statement] = prometheus.statements()
        assert statement.kind == "partial"
        wording(statement.text, tells="hosts")


def test_information_is_a_note(proxy: Proxy):
    with asking(proxy("informed", only="label_replace").url) as prometheus:
        prometheus.instant(TWO)
        assert [one.kind for one in prometheus.statements()] == ["note"]


def test_series_that_come_twice_are_kept_once(proxy: Proxy):
    with asking(proxy("twice", only="label_replace").url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        [statement] = prometheus.statements()
        assert statement.kind == "duplicates"
        assert statement.text.startswith("series came twice")


@pytest.mark.parametrize(("seconds", "words"), [(420, "7 min ahead of"), (-90, "90 s behind")])
def test_a_wrong_clock_is_stated_and_followed(proxy: Proxy, seconds: int, words: str):
    unwell = proxy(f"skewed:{seconds}")
    with asking(unwell.url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        assert prometheus.now_s - time.time() == pytest.approx(seconds, abs=3)
        assert float(unwell.forms[-1]["time"]) == pytest.approx(prometheus.now_s, abs=0.001)
        [statement] = prometheus.statements()
        assert (statement.kind, words in statement.text) == ("skew", True)


def test_a_value_of_half_a_minute_ago_is_no_wrong_clock(proxy: Proxy):
    with asking(proxy("late_value").url) as prometheus:
        assert prometheus.now_s == pytest.approx(time.time(), abs=3)
        assert prometheus.statements() == ()


def test_a_server_that_tells_no_time_is_believed_by_its_date(proxy: Proxy):
    with asking(proxy("huge:0.5").url) as prometheus:
        assert prometheus.now_s == pytest.approx(time.time(), abs=3)
