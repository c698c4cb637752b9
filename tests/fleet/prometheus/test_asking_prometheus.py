"""A healthy real Prometheus: one query time, one connection, credentials sent and never shown."""

import json
import time
from threading import Thread

import pytest
from two_hosts import BOTH, TWO, Proxy, asking, by_host

from unslow.facts.errors import UserError
from unslow.fleet.prometheus.answers import Series
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access


def test_instant_and_range_queries_use_one_server_time(real_url: str):
    with asking(real_url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        first = prometheus.now_s
        time.sleep(0.02)
        assert prometheus.instant("time()").series == [Series({}, first)]
        assert prometheus.instant("time()", at=1e9).series == [Series({}, 1e9)]
        [curve] = prometheus.curves("vector(time())", first - 60, first, 30).curves
        assert curve.times_s == pytest.approx([first - 60, first - 30, first], abs=0.001)
        assert curve.values == curve.times_s
        assert (prometheus.queries_sent, prometheus.statements()) == (5, ())


def test_one_connection_is_reused(proxy: Proxy):
    unwell = proxy()
    with asking(unwell.url) as prometheus:
        for _ in range(5):
            assert not prometheus.instant("vector(1)").failure
        assert (unwell.connections, prometheus.queries_sent) == (1, 6)
    assert unwell.forms[1]["partial_response"] == "true"
    assert unwell.forms[1]["timeout"] == "4s"


@pytest.mark.parametrize("deed", ["hang_up", "last_word"])
def test_closed_connection_is_reopened(proxy: Proxy, deed: str):
    unwell, said = proxy(deed), list[str]()
    with Prometheus(Access(url=unwell.url), said.append) as prometheus:
        for _ in range(3):
            assert by_host(prometheus.instant(TWO).series) == BOTH
            time.sleep(0.02)
    assert (unwell.connections, said) == (4, [])


def test_queries_are_thread_safe(real_url: str):
    with asking(real_url) as prometheus:
        got: list[float] = []
        threads = [Thread(target=lambda n=n: got.append(prometheus.instant(str(n)).series[0].value)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("query", ["sum(", "up[5m]", '"text"', "nosuch(1)"])
def test_invalid_query_fails_alone(real_url: str, query: str):
    with asking(real_url) as prometheus:
        answered = prometheus.instant(query, about="odd one")
        assert answered.failure
        assert answered.series == []
        [statement] = prometheus.statements()
        assert (statement.kind, "(query: odd one)" in statement.text) == ("partial", True)
        assert by_host(prometheus.instant(TWO).series) == BOTH


def test_real_query_limit_is_named(real_url: str, wording):
    with asking(real_url) as prometheus:
        answered = prometheus.curves("vector(1)", 0, 1e6, 1)
        wording(answered.failure.partition(": ")[0])
        assert [one.kind for one in prometheus.statements()] == ["limit"]


def test_wrong_path_is_a_user_error(real_url: str):
    with asking(f"{real_url}/prometheus") as prometheus, pytest.raises(UserError) as error:
        prometheus.instant("vector(1)")
    assert "no Prometheus API at" in error.value.message
    assert "leave out /prometheus" in error.value.hint


def test_gzip_responses_are_decompressed(proxy: Proxy):
    with asking(proxy("packed").url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH


def test_server_without_post_is_queried_with_get(proxy: Proxy):
    unwell = proxy("no_post")
    with asking(unwell.url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        assert prometheus.queries_sent == 3
        assert len(unwell.forms) == 3


def test_credentials_are_sent_with_every_query(proxy: Proxy):
    unwell = proxy(authorization="Basic am9lOmh1bnRlcjIy")
    address = unwell.url.replace("://", "://joe:hunter22@")
    with asking(address) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        assert "hunter22" not in prometheus.shown_url
    with asking(unwell.url, bearer="wrong") as prometheus, pytest.raises(UserError, match="401"):
        prometheus.instant("vector(1)")


def test_secrets_echoed_by_the_server_are_masked(proxy: Proxy):
    headers = (("X-Api-Key", "k-12345678"), ("X-Scope-OrgID", "team-a"))
    unwell = proxy("repeats_secrets", only="label_replace")
    with asking(unwell.url, bearer="very.secret.token", headers=headers) as prometheus:
        failure = prometheus.instant(TWO).failure
        everything = failure + json.dumps([one.text for one in prometheus.statements()])
    assert "X-Scope-OrgID: team-a" in failure
    assert "X-Api-Key: masked" in failure
    assert not any(secret in everything for secret in ("k-12345678", "very.secret.token", "\x1b"))


def test_environment_proxies_are_ignored(real_url: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with asking(real_url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH


def test_a_password_over_plain_http_to_another_machine_is_noted():
    noted = asking("http://prometheus.example:9090", username="a", password="hunter22").statements()
    assert [one.kind for one in noted] == ["note"]
    assert asking("http://localhost:9090", username="a", password="hunter22").statements() == ()
    assert asking("https://prometheus.example", username="a", password="hunter22").statements() == ()
