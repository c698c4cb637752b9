"""Curves of a real Prometheus, held against what its series were made of."""

from contextlib import closing

import pytest
from tests.two_servers import EACH_S, NAMES, SCRAPE_S, SPAN_S, START_S, loads, two_servers

from unslow.fleet.capacity.curves import read_curves
from unslow.fleet.capacity.report import Goal
from unslow.fleet.capacity.users import row_of
from unslow.fleet.member import Member, MemberGpu, Reading
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.queries import Options


def member(instance):
    seen = {"samples": Reading(900 / SCRAPE_S, "t"), "up": Reading(1.0, "t")}
    gpu = MemberGpu(index=0, name="NVIDIA H100 80GB HBM3")
    labels = {"job": "vllm", "instance": instance}
    return Member(key=instance, runtime="vLLM", model="m", window_s=900.0, engine=seen, gpus=(gpu,), labels=labels)


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    with two_servers(tmp_path_factory.mktemp("two")) as url, closing(Prometheus(Access(url=url))) as prometheus:
        prometheus.instant("up")
        before, said = prometheus.queries_sent, []
        members = [member(name) for name in NAMES]
        found = read_curves(prometheus, members, Options(), SPAN_S, lambda text, _share: said.append(text))
        stranger = read_curves(prometheus, members[:1], Options(), 8 * SPAN_S, lambda *_: None)
        return found, stranger, prometheus.queries_sent - before, said


def test_two_servers_form_one_group_with_the_true_curve(curves):
    found, _, asked, said = curves
    assert (asked, len(said)) == (2 * 7, 7)
    [like] = found.likes
    assert (like.instances, like.gpus_each, len(like.moments) > 150) == (2, 1, True)
    row = row_of(like, Goal(tokens_per_s=50.0))
    assert row.basis == "measured"
    assert row.users_at_goal.mid == 2 * 12  # 8 ms and 12 ms are a fiftieth of a second
    for point in row.points:
        assert 1 / point.tokens_per_s.mid == pytest.approx(START_S + EACH_S * point.requests, rel=0.05)


def test_first_token_and_kv_cache_limits_are_read(curves):
    [like] = curves[0].likes
    row = row_of(like, Goal(tokens_per_s=20.0, first_token_s=0.2))
    assert (row.limit, row.users_at_goal.mid) == ("time to first token", 2 * 10)
    simulated = row_of(like, Goal(tokens_per_s=20.0))
    assert (simulated.basis, simulated.limit) == ("simulated", "decode speed")
    assert simulated.users_at_goal.mid == pytest.approx(2 * 42, abs=4)
    full = row_of(like, Goal(tokens_per_s=9.5))
    assert full.users_at_goal.high <= 2 * 101


def test_group_load_sums_both_servers(curves):
    [like] = curves[0].likes
    together = [a + b for a, b in zip(loads(0), loads(1), strict=True)]
    assert like.load.mean == pytest.approx(sum(together) / len(together), rel=0.1)
    assert like.load.peak == pytest.approx(max(together), rel=0.1)


def test_missing_retention_and_orphan_series_are_stated(curves, wording):
    _, found, _, _ = curves
    assert len(found.statements) == 2
    wording([said.text for said in found.statements if said.instances == 1])
    assert any("no data for the first" in said.text for said in found.statements)
