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


def test_parts_sum_to_the_client_time():
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


def test_without_llama_bench_step_and_loop_are_one_part():
    parts = parts_of([h200_round() for _ in range(9)])
    assert parts
    found = seconds(parts)
    assert found[STEP_AND_LOOP] == pytest.approx(STEP_S + LOOP_S)
    assert STEP not in found
    assert sum(found.values()) == pytest.approx(parts.seconds)
    assert "llama-bench" in parts.notes[0]


def test_difference_within_noise_goes_to_the_remainder():
    noise = [-2e-3, 2e-3, -1.5e-3, 1.5e-3, 1e-3, -1e-3, 3e-3, -3e-3, 0.0]
    parts = parts_of([h200_round(noise_s=one) for one in noise], LLAMA_BENCH)
    assert parts
    sampling = next(part for part in parts.parts if part.name == SAMPLING)
    assert not sampling.told_apart
    assert sampling.seconds == 0
    assert sampling.low_s < 0 < sampling.high_s
    assert seconds(parts)[UNEXPLAINED] == pytest.approx(LOOP_S + SAMPLE_S)
    assert sum(seconds(parts).values()) == pytest.approx(parts.seconds)


def test_slow_rounds_do_not_hide_a_part():
    """Drift affects all variants of a round alike, so the differences within rounds stay the same."""
    parts = parts_of([h200_round(slow) for slow in (1, 1.5, 1.1, 2, 1.2, 1.3, 1.0, 1.7, 1.4)], LLAMA_BENCH)
    assert parts
    assert seconds(parts)[SAMPLING] == pytest.approx(SAMPLE_S)


def test_one_round_distinguishes_no_part():
    parts = parts_of([h200_round()], LLAMA_BENCH)
    assert parts
    assert {part.name for part in parts.parts if part.told_apart} <= {STEP, UNEXPLAINED}
    assert sum(seconds(parts).values()) == pytest.approx(parts.seconds)


def test_step_longer_than_the_server_token_is_noted():
    slow = Step(0.006, 0.0059, 0.0061, "llama-bench, tg128")
    parts = parts_of([h200_round() for _ in range(9)], slow)
    assert parts
    assert seconds(parts)[UNEXPLAINED] < 0
    assert any("same conditions" in note for note in parts.notes)
    assert sum(seconds(parts).values()) == pytest.approx(parts.seconds)


def test_server_without_timings_uses_client_times(wording):
    rounds = [Round(Timing(client_s=0.010), Timing(client_s=0.008)) for _ in range(9)]
    parts = parts_of(rounds)
    assert parts
    assert seconds(parts) == pytest.approx({STEP_AND_LOOP: 0.008, SAMPLING: 0.002})
    wording(parts.notes)


def test_failed_variants_leave_their_part_in_the_remainder():
    parts = parts_of([Round(Timing(0.0101, 0.0100)) for _ in range(9)])
    assert parts
    assert set(seconds(parts)) == {STEP_AND_LOOP, DELIVERY}
    assert any(note.startswith("sampling") for note in parts.notes)


def test_negative_sampling_time_is_noise():
    rounds = [Round(Timing(0.010, 0.010), Timing(0.012, 0.012)) for _ in range(9)]
    parts = parts_of(rounds)
    assert parts
    assert seconds(parts)[SAMPLING] == 0
    assert any(note.startswith("sampling: negative") for note in parts.notes)


def test_nothing_timed_gives_no_parts():
    assert parts_of([]) is None
    assert parts_of([Round(Timing())]) is None
