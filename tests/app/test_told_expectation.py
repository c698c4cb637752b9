"""What named hardware usually gives a named model, and how that is said where the model is too large for it."""

import re

from unslow.app.told_expectation import CPU_UNTOLD
from unslow.app.triage import triage
from unslow.think.checklist import AS_FAST
from unslow.think.headline import AS_MUCH_AS_FITS
from unslow.think.report import SubjectReport

DECODE = "decode_tokens_per_s"


def report(text: str) -> SubjectReport:
    return triage([text.encode()], "paste").report.subjects[0]


def speed_question(subject: SubjectReport) -> str:
    return next(item.state for item in subject.checklist if item.item == AS_FAST)


def test_a_model_that_fits_is_held_against_the_whole_gpu():
    subject = report("ollama, llama 3.1 8b Q4_K_M on a RTX 3090, it is slow: 9 tok/s\n")
    assert subject.expected.achievable[DECODE].mid > 50
    assert AS_MUCH_AS_FITS not in subject.summary


def test_a_model_that_is_too_large_is_held_against_what_fits():
    subject = report("ollama, qwen2.5 32b Q4_K_M on a RTX 3060 12GB, it is slow: 3 tok/s\n")
    assert subject.expected.achievable[DECODE].mid < 10, "not the speed of a GPU that holds it all"
    assert re.search(rf"; {AS_MUCH_AS_FITS} about [\d.]+ are usual", subject.summary)
    assert speed_question(subject) != "bad" or subject.measured[DECODE] < subject.expected.achievable[DECODE].low


def test_a_part_on_a_cpu_that_nobody_names_is_not_predicted_below_what_it_does():
    subject = report("llama.cpp, Llama 3.3 70B Q4_K_M on a RTX 4090 24GB: slow, 8 tok/s\n")
    assert not subject.expected.achievable
    assert (subject.expected.because, speed_question(subject)) == (CPU_UNTOLD, "unknown")


def test_requests_that_run_together_are_not_held_against_one():
    line = (
        "INFO 03-01 10:05:00 [loggers.py:87] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 35.6 tokens/s, Running: 18 reqs, Waiting: 42 reqs, GPU KV cache usage: 99.5%\n"
    )
    subject = report(f"Qwen2.5-7B Q4_K_M on a RTX 3090\n{line}")
    assert not subject.expected.achievable
    assert "several requests shared it" in subject.expected.because
    assert "should give" not in subject.summary


def test_one_line_is_one_line():
    assert "Read 1 line: " in report("ollama is slow on my RTX 3090: 3 tok/s\n").notes[-1]
