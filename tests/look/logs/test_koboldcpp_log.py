"""KoboldCpp log lines in their four historic formats."""

import pytest

from unslow.look.logs.koboldcpp import DIALECT, KoboldReader

FORMS = {
    2023: "ContextLimit: 614/2048, Processing:0.43s (5.5ms/T), Generation:3.62s (55.8ms/T), Total:4.06s (16.02T/s)",
    2024: "CtxLimit:614/2048, Amt:65/200, Init:0.01s, Process:0.43s (5.5ms/T = 181.40T/s), "
    "Generate:3.62s (55.7ms/T = 17.96T/s), Total:4.05s (16.05T/s)",
    2025: "[01:03:39] CtxLimit:614/2048, Amt:65/200, Init:0.01s, Process:0.43s (181.40T/s), "
    "Generate:3.62s (17.96T/s), Total:4.05s",
    2026: "[01:03:39] CtxLimit:614/2048, Init:0.01s, Processed:78 in 0.43s (181.40T/s), "
    "Generated:65/200 in 3.62s (17.96T/s), Total:4.06s",
}


def read(*lines: str):
    reader = KoboldReader()
    taken = [reader.take(line, f"log:{number}") for number, line in enumerate(lines, 1)]
    return taken, reader.log_facts("log")


@pytest.mark.parametrize("line", FORMS.values(), ids=[str(year) for year in FORMS])
def test_a_koboldcpp_request_line_of_each_year_is_parsed(line):
    taken, seen = read(f"docker | {line}")
    assert taken == [True]
    (done,) = seen.subject.run.completions.value
    assert (done.prompt_tokens, done.generated_tokens) == (78, 65)
    assert (done.prefill_s, done.decode_s) == (0.43, 3.62)
    assert done.cached_tokens == 614 - 78 - 65
    assert seen.subject.run.decode_tokens_per_s.value == pytest.approx(64 / 3.62)
    assert seen.subject.run.decode_tokens_per_s.source == "log:1"
    assert seen.subject.runtime.context.length.value == 2048
    assert seen.subject.runtime.name.value == "KoboldCpp"


def test_every_koboldcpp_request_line_contains_a_needle():
    assert all(any(needle in line for needle in DIALECT.needles) for line in FORMS.values())


def test_koboldcpp_settings_and_gpu_refusal_are_parsed():
    _, seen = read(
        "Welcome to KoboldCpp - Version 1.83.1",
        "Auto Recommended GPU Layers: 31",
        "[Threads: 9, BlasThreads: 8, SmartContext: False, ContextShift: True]",
        "WARNING: GPU layers is set, but a GPU backend was not selected! GPU will not be used!",
    )
    runtime = seen.subject.runtime
    assert (runtime.version.value, runtime.version.source) == ("1.83.1", "log:1")
    assert (
        runtime.placement.gpu_layers_set.value,
        runtime.compute.threads.value,
        runtime.compute.threads_batch.value,
    ) == (31, 9, 8)
    assert runtime.placement.gpu_refused.value.endswith("GPU will not be used!")
    assert seen.lines == 4


def test_koboldcpp_benchmark_speeds_are_parsed():
    _, seen = read("ProcessingSpeed: 406.84T/s", "GenerationTime: 26.624s", "GenerationSpeed: 3.76T/s")
    assert seen.subject.run.decode_tokens_per_s.value == 3.76
    assert seen.subject.run.prefill_tokens_per_s.value == 406.84


def test_a_new_koboldcpp_start_discards_earlier_requests():
    _, seen = read(FORMS[2026], "Welcome to KoboldCpp - Version 1.117.1")
    assert seen.subject.runtime.version.value == "1.117.1"
    assert seen.subject.run.completions.value_or(None) is None


@pytest.mark.parametrize(
    "line",
    [
        "CtxLimit",
        "CtxLimit:1/2, Process:nans (infT/s), Generate:-1s (1T/s)",
        "CtxLimit:" + "9" * 400 + "/1, Process:1s (1T/s), Generate:1s (1T/s)",
        "GPU Layers: many",
        "the ContextLimit is 4096, Process me",
    ],
)
def test_malformed_koboldcpp_lines_are_ignored(line):
    taken, seen = read(line)
    assert taken == [False]
    assert seen.lines == 0


def test_a_koboldcpp_request_without_time_is_not_a_measurement():
    start = "CtxLimit:9/20, Init:0.00s, "
    assert read(f"{start}Process:0.00s (0.0ms/T = infT/s), Generate:0.00s (1.00T/s), Total:0.00s")[0] == [False]
    taken, seen = read(f"{start}Processed:9 in 0.10s (90.00T/s), Generated:0/5 in 0.00s (0.00T/s), Total:0.1s")
    assert taken == [True]
    assert seen.subject.run.completions.value_or(None) is None
