import pytest

from unslow.think.stats.parts import (
    DELIVERY,
    SAMPLING,
    STEP,
    STEP_AND_LOOP,
    STREAMING,
    UNEXPLAINED,
    Parts,
    Round,
    Step,
    Timing,
    parts_of,
)

STEP_S, SAMPLE_S, SEND_S, WAY_S, LOOP_S = 3.83e-3, 0.40e-3, 0.10e-3, 0.02e-3, 0.22e-3
LLAMA_BENCH = Step(STEP_S, STEP_S * 0.998, STEP_S * 1.002, "llama-bench, tg128")


def h200_round(slow: float = 1.0, noise_s: float = 0.0) -> Round:
    """A round on a server whose parts are known, all of it slower by a factor, and one way by some noise."""
    server = (STEP_S + SAMPLE_S + SEND_S + LOOP_S) * slow
    return Round(
        Timing(server + WAY_S, server),
        Timing(server - SAMPLE_S + WAY_S + noise_s, server - SAMPLE_S + noise_s),
        Timing(None, server - SEND_S),
    )


def seconds(parts: Parts) -> dict[str, float]:
    return {part.name: part.seconds for part in parts.parts}


def test_the_gap_to_llama_bench_is_shown_as_parts_that_sum_to_the_clients_time():
    parts = parts_of([h200_round() for _ in range(9)], LLAMA_BENCH)
    assert parts
    found = seconds(parts)
    assert list(found) == [STEP, SAMPLING, STREAMING, DELIVERY, UNEXPLAINED]
    assert found[SAMPLING] == pytest.approx(SAMPLE_S)
    assert found[STREAMING] == pytest.approx(SEND_S)
    assert found[DELIVERY] == pytest.approx(WAY_S)
    assert found[UNEXPLAINED] == pytest.approx(LOOP_S)
    assert sum(found.values()) == pytest.approx(parts.seconds)
    assert not parts.notes


def test_without_llama_bench_the_step_and_the_loop_are_one_part_and_it_says_what_would_tell():
    parts = parts_of([h200_round() for _ in range(9)])
    assert parts
    found = seconds(parts)
    assert found[STEP_AND_LOOP] == pytest.approx(STEP_S + LOOP_S)
    assert STEP not in found
    assert sum(found.values()) == pytest.approx(parts.seconds)
    assert "llama-bench" in parts.notes[0]


def test_a_difference_within_the_noise_is_nothing_and_goes_to_the_rest():
    noise = [-2e-3, 2e-3, -1.5e-3, 1.5e-3, 1e-3, -1e-3, 3e-3, -3e-3, 0.0]
    parts = parts_of([h200_round(noise_s=one) for one in noise], LLAMA_BENCH)
    assert parts
    sampling = next(part for part in parts.parts if part.name == SAMPLING)
    assert not sampling.told_apart
    assert sampling.seconds == 0
    assert sampling.low_s < 0 < sampling.high_s
    assert seconds(parts)[UNEXPLAINED] == pytest.approx(LOOP_S + SAMPLE_S)
    assert sum(seconds(parts).values()) == pytest.approx(parts.seconds)


def test_rounds_that_are_slow_as_a_whole_do_not_hide_a_part():
    """Drift touches all ways of a round alike, so the differences within rounds stay what they are."""
    parts = parts_of([h200_round(slow) for slow in (1, 1.5, 1.1, 2, 1.2, 1.3, 1.0, 1.7, 1.4)], LLAMA_BENCH)
    assert parts
    assert seconds(parts)[SAMPLING] == pytest.approx(SAMPLE_S)


def test_one_round_tells_no_part_apart():
    parts = parts_of([h200_round()], LLAMA_BENCH)
    assert parts
    assert {part.name for part in parts.parts if part.told_apart} <= {STEP, UNEXPLAINED}
    assert sum(seconds(parts).values()) == pytest.approx(parts.seconds)


def test_a_step_longer_than_the_servers_token_is_said():
    slow = Step(0.006, 0.0059, 0.0061, "llama-bench, tg128")
    parts = parts_of([h200_round() for _ in range(9)], slow)
    assert parts
    assert seconds(parts)[UNEXPLAINED] < 0
    assert any("same conditions" in note for note in parts.notes)
    assert sum(seconds(parts).values()) == pytest.approx(parts.seconds)


def test_a_server_without_a_clock_tells_sampling_by_the_clients(wording):
    rounds = [Round(Timing(client_s=0.010), Timing(client_s=0.008)) for _ in range(9)]
    parts = parts_of(rounds)
    assert parts
    assert seconds(parts) == pytest.approx({STEP_AND_LOOP: 0.008, SAMPLING: 0.002})
    wording(parts.notes)


def test_ways_that_failed_leave_the_whole_to_the_rest():
    parts = parts_of([Round(Timing(0.0101, 0.0100)) for _ in range(9)])
    assert parts
    assert set(seconds(parts)) == {STEP_AND_LOOP, DELIVERY}
    assert any(note.startswith("sampling") for note in parts.notes)


def test_samplers_that_make_it_faster_are_noise_and_said_to_be():
    rounds = [Round(Timing(0.010, 0.010), Timing(0.012, 0.012)) for _ in range(9)]
    parts = parts_of(rounds)
    assert parts
    assert seconds(parts)[SAMPLING] == 0
    assert any(note.startswith("sampling: below zero") for note in parts.notes)


def test_nothing_timed_is_no_parts():
    assert parts_of([]) is None
    assert parts_of([Round(Timing())]) is None
