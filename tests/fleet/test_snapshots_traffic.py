"""How many requests share a step, and how fast each is, over a window with pauses."""

import pytest
from fleet_members import llama_cpp, member

from unslow.facts.run import Traffic
from unslow.facts.values import Unknown
from unslow.fleet.member import Member
from unslow.fleet.snapshots import snapshot_of


def traffic(one: Member) -> Traffic:
    return snapshot_of(one).subjects[0].run.traffic.value


def test_bursts_of_ten_requests_give_a_batch_of_ten():
    one = member(running=1.0, running_spread=3.0, generated_tokens_per_s=100.0, token_gap_s=0.01)
    seen = traffic(one)
    assert seen.each_tokens_per_s.value == pytest.approx(100.0)
    assert seen.each_among == pytest.approx(10.0)
    assert seen.running == 1.0


def test_prompt_rate_is_scaled_to_the_busy_part_of_the_window():
    one = member(
        running=1.0, running_spread=3.0, generated_tokens_per_s=100.0, token_gap_s=0.01,
        prompt_tokens_per_s=300.0,
    )  # fmt: skip
    assert traffic(one).prompt_tokens_per_s.value == pytest.approx(3000.0), "it worked for a tenth of the time"


def test_prefill_time_counts_as_busy():
    one = member(
        running=4.0, running_spread=0.0, generated_tokens_per_s=20.0, token_gap_s=0.02,
        prompt_tokens_per_s=9000.0,
    )  # fmt: skip
    assert traffic(one).prompt_tokens_per_s.value == pytest.approx(9000.0), "a tenth of each request is its answer"


def test_scrapes_missing_every_request_still_give_running():
    one = member(
        running=0.0, running_spread=0.0, generated_tokens_per_s=40.0, token_gap_s=0.01,
        tokens_counted=36_000.0,
    )  # fmt: skip
    seen = traffic(one)
    assert seen.running == pytest.approx(0.4), "by Little's law"
    assert seen.each_among == 1.0


def test_scrapes_missing_most_requests_still_give_running():
    one = member(running=1.0, running_spread=0.0, generated_tokens_per_s=400.0, token_gap_s=0.01)
    seen = traffic(one)
    assert (seen.running, seen.each_among) == (pytest.approx(4.0), pytest.approx(4.0)), "by Little's law"


def test_missing_spread_leaves_the_batch_size_unknown(wording):
    seen = traffic(member(running=3.0, running_spread=None))
    assert isinstance(seen.each_tokens_per_s, Unknown)
    wording(seen.each_tokens_per_s.why)


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ({"tokens_counted": 20.0}, "20 generated in the window"),
        (
            {"running": 0.0, "token_gap_s": None, "tokens_counted": None, "generated_tokens_per_s": 0.0},
            "no requests in the window",
        ),
        ({"token_gap_s": None, "tokens_counted": None}, "no time between tokens"),
    ],
)
def test_unknown_speed_states_the_reason(engine, why):
    seen = traffic(member(**engine))
    assert why in seen.each_tokens_per_s.why


def test_llama_cpp_speed_uses_busy_seconds():
    seen = traffic(llama_cpp())
    assert seen.each_tokens_per_s.value == 40.0
    assert seen.each_among == pytest.approx(1.22, abs=0.01)
    assert isinstance(seen.preemptions, Unknown)


def test_missing_waiting_counter_is_recorded():
    assert traffic(member(waiting=None)).counts_waiting is False
    assert isinstance(snapshot_of(member(running=None, generated_tokens_per_s=None)).subjects[0].run.traffic, Unknown)
