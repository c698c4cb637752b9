"""A real Prometheus behind a faulty proxy: failures are stated and never look like missing series."""

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
        ("mimir_length", "limit", "time range of one query", "--window"),
        ("busy", "limit", "concurrent queries", "less busy"),
        ("timed_out", "partial", "timed out: query timed out", "--timeout"),
        ("unavailable", "partial", "503: at least 2 live replicas", "starting"),
        ("internal", "partial", "500: boom", "log"),
        ("half_json", "partial", "truncated", "between"),
        ("cut", "partial", "broke off in the middle", "--match"),
        ("packed_badly", "partial", "broke off in the middle", "--match"),
        ("page", "partial", "web page", "between"),
        ("empty", "partial", "empty", "between"),
        ("other_json", "partial", "not Prometheus JSON", "between"),
        ("error_with_200", "partial", "swallowed the status", "between"),
        ("slow:3", "partial", "no response within", "--timeout"),
        ("drip", "partial", "no response within", "--timeout"),
        ("bomb:10", "limit", "larger than 2 MB", "--match"),
        ("huge:2000", "limit", "2,000 series, more than 1,000", "--match"),
    ],
)
def test_one_failed_query_leaves_the_others_intact(proxy: Proxy, deed: str, kind: str, words: str, hint: str):
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
        ("unauthorized", "requires authentication (401)", "--token-file"),
        ("no_tenant", "no org id", "X-Scope-OrgID"),
        ("forbidden", "denies access (403)", "--username"),
        ("elsewhere", "redirects to http://login.example.org/start, which is not followed", "login"),
        ("to_nowhere", "redirects to nowhere, which is not followed", "not followed"),
        ("to_tls", "redirects to https://127.0.0.1/api", "use https://127.0.0.1"),
        ("page", "web page", "login"),
        ("starting", "503: Service Unavailable", "starting"),
        ("gateway", "status 502", "starting"),
        ("reset", "broke off", "running"),
        ("close", "broke off", "running"),
        ("slow:1", "no response within", "--timeout"),
        ("busy", "concurrent queries", "less busy"),
    ],
)
def test_server_that_refuses_everything_is_a_user_error(proxy: Proxy, deed: str, words: str, hint: str):
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
def test_transient_failures_are_retried(proxy: Proxy, deeds: list[str]):
    unwell, said = proxy(), list[str]()
    with Prometheus(Access(url=unwell.url), said.append) as prometheus:
        assert prometheus.now_s
        unwell.next.extend(deeds)
        assert by_host(prometheus.instant(TWO).series) == BOTH
        assert (len(unwell.next), prometheus.statements()) == (0, ())
    assert all("retrying for up to 20 s" in text for text in said)
    assert len(said) == 1


def test_restart_between_queries_is_retried(proxy: Proxy):
    unwell = proxy()
    with asking(unwell.url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        unwell.away(0.3)
        assert by_host(prometheus.instant(TWO).series) == BOTH
        unwell.close()
        with pytest.raises(UserError, match="nothing listens there"):
            asking(unwell.url, restart_s=0.1).instant("vector(1)")
        assert unwell.connections == 2


def test_permanently_busy_server_is_not_retried_every_time(proxy: Proxy, wording):
    unwell = proxy("busy", only="999")
    with asking(unwell.url, restart_s=1.8) as prometheus:
        failure = wording(prometheus.instant("vector(999)").failure)
        tries = prometheus.queries_sent
        assert prometheus.instant("vector(999)").failure == failure
    assert prometheus.queries_sent - tries <= 2 < tries - 1


def test_total_time_limit_ends_all_queries(proxy: Proxy, wording):
    unwell = proxy("slow:3", only="999")
    with asking(unwell.url, timeout_s=0.9, whole_s=0.9) as prometheus:
        assert "no response" in prometheus.instant("vector(999)").failure
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


def test_victoria_metrics_is_partial_is_stated(proxy: Proxy, wording):
    with asking(proxy("partly_stored", only="label_replace").url) as prometheus:
        prometheus.instant(TWO, about="hosts")
        [statement] = prometheus.statements()
        assert statement.kind == "partial"
        wording(statement.text, tells="hosts")


def test_infos_become_a_note(proxy: Proxy):
    with asking(proxy("informed", only="label_replace").url) as prometheus:
        prometheus.instant(TWO)
        assert [one.kind for one in prometheus.statements()] == ["note"]


def test_duplicate_series_are_kept_once_and_stated(proxy: Proxy):
    with asking(proxy("twice", only="label_replace").url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        [statement] = prometheus.statements()
        assert statement.kind == "duplicates"
        assert statement.text.startswith("duplicate series")


@pytest.mark.parametrize(("seconds", "words"), [(420, "7 min ahead of"), (-90, "90 s behind")])
def test_clock_skew_is_stated_and_the_server_time_used(proxy: Proxy, seconds: int, words: str):
    unwell = proxy(f"skewed:{seconds}")
    with asking(unwell.url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        assert prometheus.now_s - time.time() == pytest.approx(seconds, abs=3)
        assert float(unwell.forms[-1]["time"]) == pytest.approx(prometheus.now_s, abs=0.001)
        [statement] = prometheus.statements()
        assert (statement.kind, words in statement.text) == ("skew", True)


def test_latency_offset_of_victoria_metrics_is_not_clock_skew(proxy: Proxy):
    with asking(proxy("late_value").url) as prometheus:
        assert prometheus.now_s == pytest.approx(time.time(), abs=3)
        assert prometheus.statements() == ()


def test_missing_timestamp_falls_back_to_the_date_header(proxy: Proxy):
    with asking(proxy("huge:0.5").url) as prometheus:
        assert prometheus.now_s == pytest.approx(time.time(), abs=3)
