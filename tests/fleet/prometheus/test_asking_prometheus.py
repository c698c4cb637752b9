"""A real Prometheus that is well: one moment, one connection, who asks, and what is never shown."""

import json
import time
from threading import Thread

import pytest
from two_hosts import BOTH, TWO, Proxy, asking, by_host

from unslow.facts.errors import UserError
from unslow.fleet.prometheus.answers import Series
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access


def test_series_and_curves_at_one_moment_of_its_clock(real_url: str):
    with asking(real_url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        first = prometheus.now_s
        time.sleep(0.02)
        assert prometheus.instant("time()").series == [Series({}, first)]
        assert prometheus.instant("time()", at=1e9).series == [Series({}, 1e9)]
        [curve] = prometheus.curves("vector(time())", first - 60, first, 30).curves
        assert curve.times_s == pytest.approx([first - 60, first - 30, first], abs=0.001)
        assert curve.values == curve.times_s
        assert (prometheus.asked, prometheus.statements()) == (5, ())


def test_one_connection_is_kept(proxy: Proxy):
    unwell = proxy()
    with asking(unwell.url) as prometheus:
        for _ in range(5):
            assert not prometheus.instant("vector(1)").failure
        assert (unwell.connections, prometheus.asked) == (1, 6)
    assert unwell.forms[1]["partial_response"] == "true"
    assert unwell.forms[1]["timeout"] == "4s"


@pytest.mark.parametrize("deed", ["hang_up", "last_word"])
def test_a_connection_that_ends_after_an_answer_is_opened_again(proxy: Proxy, deed: str):
    unwell, said = proxy(deed), list[str]()
    with Prometheus(Access(url=unwell.url), said.append) as prometheus:
        for _ in range(3):
            assert by_host(prometheus.instant(TWO).series) == BOTH
            time.sleep(0.02)
    assert (unwell.connections, said) == (4, [])


def test_many_threads_may_ask(real_url: str):
    with asking(real_url) as prometheus:
        got: list[float] = []
        threads = [Thread(target=lambda n=n: got.append(prometheus.instant(str(n)).series[0].value)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("query", ["sum(", "up[5m]", '"text"', "nosuch(1)"])
def test_a_query_that_is_wrong_fails_alone(real_url: str, query: str):
    with asking(real_url) as prometheus:
        answered = prometheus.instant(query, about="odd one")
        assert answered.failure
        assert answered.series == []
        [statement] = prometheus.statements()
        assert (statement.kind, "(query: odd one)" in statement.text) == ("partial", True)
        assert by_host(prometheus.instant(TWO).series) == BOTH


def test_a_real_limit_is_named(real_url: str, wording):
    with asking(real_url) as prometheus:
        answered = prometheus.curves("vector(1)", 0, 1e6, 1)
        wording(answered.failure.partition(": ")[0])
        assert [one.kind for one in prometheus.statements()] == ["limit"]


def test_another_path_has_no_api(real_url: str):
    with asking(f"{real_url}/prometheus") as prometheus, pytest.raises(UserError) as error:
        prometheus.instant("vector(1)")
    assert "no Prometheus API at" in error.value.message
    assert "leave out /prometheus" in error.value.hint


def test_packed_answers_are_unpacked(proxy: Proxy):
    with asking(proxy("packed").url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH


def test_a_server_for_readers_is_asked_with_get(proxy: Proxy):
    unwell = proxy("no_post")
    with asking(unwell.url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        assert prometheus.asked == 3
        assert len(unwell.forms) == 3


def test_who_asks_is_told_with_every_query(proxy: Proxy):
    unwell = proxy(authorization="Basic am9lOmh1bnRlcjIy")
    address = unwell.url.replace("://", "://joe:hunter22@")
    with asking(address) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH
        assert "hunter22" not in prometheus.shown_url
    with asking(unwell.url, bearer="wrong") as prometheus, pytest.raises(UserError, match="401"):
        prometheus.instant("vector(1)")


def test_secrets_that_a_server_repeats_are_not_shown(proxy: Proxy):
    headers = (("X-Api-Key", "k-12345678"), ("X-Scope-OrgID", "team-a"))
    unwell = proxy("repeats_secrets", only="label_replace")
    with asking(unwell.url, bearer="very.secret.token", headers=headers) as prometheus:
        failure = prometheus.instant(TWO).failure
        everything = failure + json.dumps([one.text for one in prometheus.statements()])
    assert "X-Scope-OrgID: team-a" in failure
    assert "X-Api-Key: masked" in failure
    assert not any(secret in everything for secret in ("k-12345678", "very.secret.token", "\x1b"))


def test_proxies_of_the_environment_are_not_used(real_url: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with asking(real_url) as prometheus:
        assert by_host(prometheus.instant(TWO).series) == BOTH


def test_a_password_over_plain_http_to_another_machine_is_noted():
    noted = asking("http://prometheus.example:9090", username="a", password="hunter22").statements()
    assert [one.kind for one in noted] == ["note"]
    assert asking("http://localhost:9090", username="a", password="hunter22").statements() == ()
    assert asking("https://prometheus.example", username="a", password="hunter22").statements() == ()
