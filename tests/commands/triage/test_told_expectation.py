"""What named hardware usually gives a named model, and how that is said where the model is too large for it."""

import re

from unslow.commands.triage.expectation import CPU_UNTOLD
from unslow.commands.triage.pasted_text import triage
from unslow.think.judge.checklist import AS_FAST
from unslow.think.judge.headline import AS_MUCH_AS_FITS
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


def test_requests_that_run_together_are_not_held_against_one(wording):
    line = (
        "INFO 03-01 10:05:00 [loggers.py:87] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 35.6 tokens/s, Running: 18 reqs, Waiting: 42 reqs, GPU KV cache usage: 99.5%\n"
    )
    subject = report(f"Qwen2.5-7B Q4_K_M on a RTX 3090\n{line}")
    assert not subject.expected.achievable
    wording(subject.expected.because)
    assert "should give" not in subject.summary


def test_one_line_is_one_line(wording):
    wording(report("ollama is slow on my RTX 3090: 3 tok/s\n").notes[-1], tells="1")


def asked(rate: float) -> SubjectReport:
    return report(f"RTX 4090, llama 3.1 8b Q4_K_M gguf in LM Studio, {rate:g} tok/s. is this ok?\n")


def test_a_speed_at_the_edge_of_what_is_usual_is_normal():
    subject = asked(128)
    assert subject.expected.achievable[DECODE].low > 128
    assert subject.verdict == "normal"
    assert speed_question(subject) == "ok"
    assert "too little is known" not in subject.summary


def test_a_speed_below_what_is_usual_is_slow_by_so_much_and_the_suspects_are_ranked(wording):
    subject = asked(110)
    assert subject.verdict == "slow"
    wording(subject.summary)
    little, much = (re.search(r"most likely first: (.*?)\.", asked(rate).summary) for rate in (110, 20))
    assert little
    assert much
    assert "backend" not in little[1], "without a GPU it would be far slower"
    assert "backend" in much[1]
    assert "sampling" not in much[1], "it can't cost so much"


def test_a_speed_above_what_is_usual_is_normal_and_the_prediction_is_doubted(wording):
    assert asked(185).verdict == "normal"
    wording(asked(185).summary)


def test_a_speed_that_no_memory_gives_is_not_called_normal(wording):
    assert asked(2000).verdict == "cannot_tell"
    wording(asked(2000).summary)


def test_a_usual_speed_that_was_higher_before_is_held_against_what_is_usual():
    subject = report("RTX 4090, llama 3.1 8b Q4_K_M gguf in LM Studio, 140 tok/s, was 160 before the update\n")
    assert "too little is known" not in subject.summary
