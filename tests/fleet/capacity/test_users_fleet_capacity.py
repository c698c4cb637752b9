import pytest
from tests.two_servers import SPAN_S, two_servers

from unslow.commands._output import Silent
from unslow.facts.errors import UserError
from unslow.fleet.capacity.report import Goal, render_capacity
from unslow.fleet.capacity.users import capacity_report, goal_of, span_of
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.queries import Options
from unslow.fleet.settings import FleetSettings


@pytest.mark.parametrize("text", ["20", "20 tok/s", "20 tokens/s", "20.0 tokens per second", "20t/s", " 20 Tok/sec "])
def test_goal_speed_is_parsed_in_common_notations(text):
    assert goal_of(text, None) == Goal(tokens_per_s=20.0)


@pytest.mark.parametrize(("text", "seconds"), [("2", 2.0), ("2s", 2.0), ("800ms", 0.8), ("0.5", 0.5)])
def test_first_token_goal_is_parsed_in_common_notations(text, seconds):
    assert goal_of(None, text) == Goal(first_token_s=seconds)


def test_goal_may_have_both_parts_and_defaults_to_20_tok_s():
    assert goal_of("30", "1") == Goal(tokens_per_s=30.0, first_token_s=1.0)
    assert goal_of(None, None) == Goal(tokens_per_s=20.0)


@pytest.mark.parametrize("text", ["fast", "0", "-3", "1e9", "20 GB/s", "9999999999"])
def test_invalid_goal_speed_is_a_user_error(text):
    with pytest.raises(UserError, match="--goal"):
        goal_of(text, None)


@pytest.mark.parametrize("text", ["soon", "0", "2h", "-1"])
def test_invalid_first_token_goal_is_a_user_error(text):
    with pytest.raises(UserError, match="--first-token"):
        goal_of(None, text)


def test_span_flag_is_parsed_and_bounded():
    assert span_of(None) == 86400.0
    assert span_of("7d") == 7 * 86400.0
    with pytest.raises(UserError, match="--span"):
        span_of("10s")
    with pytest.raises(UserError, match="--span"):
        span_of("90d")


def test_capacity_report_is_read_from_a_prometheus(tmp_path):
    with two_servers(tmp_path) as url:
        request = FleetSettings(access=Access(url=url), options=Options(compare_s=0.0))
        report = capacity_report(request, goal_of("50 tok/s", None), Silent(), SPAN_S)
        fewer = FleetSettings(access=Access(url=url), options=Options(compare_s=0.0, match='instance="a:8000"'))
        one = capacity_report(fewer, goal_of("50 tok/s", None), Silent(), SPAN_S)
    [row] = report.rows
    assert (row.runtime, row.model, row.instances, row.basis, row.limit) == ("vLLM", "m", 2, "measured", "decode speed")
    assert row.users_at_goal.mid == 24
    assert report.complete
    assert report.queries == one.queries  # whatever the number of instances
    assert one.rows[0].users_at_goal.mid == 12
    assert "24 USERS" in render_capacity(report, "terminal", width=80, color=False)


def test_unreachable_prometheus_is_a_user_error():
    request = FleetSettings(access=Access(url="http://127.0.0.1:9", timeout_s=2.0))
    with pytest.raises(UserError):
        capacity_report(request, goal_of(None, None), Silent())
