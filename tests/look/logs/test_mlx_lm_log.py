"""MLX-LM output."""

import pytest

from unslow.look.logs.mlx_lm import MlxReader

GENERATED = (
    "Prompt: 12 tokens, 24.000 tokens-per-sec",
    "Generation: 101 tokens, 50.500 tokens-per-sec",
    "Peak memory: 4.215 GB",
)


def read(*lines: str):
    reader = MlxReader()
    taken = [reader.take(line, f"log:{number}") for number, line in enumerate(lines, 1)]
    return taken, reader.log_facts("log")


def test_an_mlx_request_is_parsed_with_times_and_memory():
    taken, seen = read(*GENERATED)
    assert taken == [True] * 3
    (done,) = seen.subject.run.completions.value
    assert (done.prompt_tokens, done.prefill_s, done.generated_tokens, done.decode_s) == (12, 0.5, 101, 2.0)
    assert seen.subject.run.decode_tokens_per_s.value == 50
    assert seen.subject.runtime.process.resident_bytes.value == 4_215_000_000
    assert seen.subject.runtime.name.value == "MLX-LM"


def test_mlx_batch_generate_lines_are_parsed():
    taken, _ = read(*(f"[batch_generate] {line}" for line in GENERATED))
    assert taken == [True] * 3


def test_a_peak_memory_line_alone_does_not_name_mlx():
    assert read("Peak memory: 4.215 GB")[0] == [False]


def test_mlx_prefill_speed_comes_from_progress_lines_of_each_prompt():
    _, seen = read(
        "2026-04-19 08:46:41,012 - INFO - Prompt processing progress: 2048/15806",
        "2026-04-19 08:46:41,012 - INFO - Prompt processing progress: 2048/47330",
        "2026-04-19 08:46:51,012 - INFO - Prompt processing progress: 4096/15806",
        "2026-04-19 08:47:01,012 - INFO - Prompt processing progress: 6144/15806",
        "2026-04-19 08:47:01,012 - INFO - Prompt processing progress: 6144/47330",
    )
    assert seen.subject.run.prefill_tokens_per_s.value == pytest.approx(204.8)


def test_skipped_mlx_progress_lines_do_not_lower_the_prefill_speed():
    reader = MlxReader()
    reader.take("2026-04-19 08:46:41,012 - INFO - Prompt processing progress: 2048/15806", "log:1")
    reader.skip("Prompt processing progress: ", 100)
    reader.take("2026-04-19 09:46:41,012 - INFO - Prompt processing progress: 4096/15806", "log:102")
    assert reader.log_facts("log").subject.run.prefill_tokens_per_s.value_or(None) is None


@pytest.mark.parametrize(
    "line",
    [
        "Prompt: nan tokens, inf tokens-per-sec",
        "Generation: -5 tokens, 1 tokens-per-sec",
        "tokens-per-sec",
        "2026-04-19 - INFO - Prompt processing progress: 1/2",
    ],
)
def test_malformed_mlx_lines_are_ignored(line):
    assert read(line)[0] == [False]


def test_impossible_mlx_times_and_speeds_are_not_measurements():
    _, seen = read(
        "Generation: 5 tokens, 0.000 tokens-per-sec",
        "2026-99-19 08:46:41,012 - INFO - Prompt processing progress: 1/9",
        "2026-99-19 08:46:49,012 - INFO - Prompt processing progress: 5/9",
    )
    assert seen.subject.run.decode_tokens_per_s.value_or(None) is None
    assert seen.subject.run.prefill_tokens_per_s.value_or(None) is None
