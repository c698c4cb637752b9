"""The usual speed of a named model on named hardware, and how it is worded where the model does not fit."""

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


def test_model_that_fits_is_compared_with_the_whole_gpu():
    subject = report("ollama, llama 3.1 8b Q4_K_M on a RTX 3090, it is slow: 9 tok/s\n")
    assert subject.expected.achievable[DECODE].mid > 50
    assert AS_MUCH_AS_FITS not in subject.summary


def test_model_that_does_not_fit_is_compared_with_partial_offload():
    subject = report("ollama, qwen2.5 32b Q4_K_M on a RTX 3060 12GB, it is slow: 3 tok/s\n")
    assert subject.expected.achievable[DECODE].mid < 10, "not the speed of a GPU that holds it all"
    assert re.search(rf"{AS_MUCH_AS_FITS[1:]}, about [\d.]+ is normal", subject.summary)
    assert speed_question(subject) != "bad" or subject.measured[DECODE] < subject.expected.achievable[DECODE].low


def test_partial_offload_with_unknown_cpu_is_not_predicted():
    subject = report("llama.cpp, Llama 3.3 70B Q4_K_M on a RTX 4090 24GB: slow, 8 tok/s\n")
    assert not subject.expected.achievable
    assert (subject.expected.because, speed_question(subject)) == (CPU_UNTOLD, "unknown")


def test_concurrent_requests_are_not_compared_with_one_user(wording):
    line = (
        "INFO 03-01 10:05:00 [loggers.py:87] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 35.6 tokens/s, Running: 18 reqs, Waiting: 42 reqs, GPU KV cache usage: 99.5%\n"
    )
    subject = report(f"Qwen2.5-7B Q4_K_M on a RTX 3090\n{line}")
    assert not subject.expected.achievable
    wording(subject.expected.because)
    assert "should give" not in subject.summary


def test_line_count_is_singular_for_one_line(wording):
    wording(report("ollama is slow on my RTX 3090: 3 tok/s\n").notes[-1], tells="1")


def asked(rate: float) -> SubjectReport:
    return report(f"RTX 4090, llama 3.1 8b Q4_K_M gguf in LM Studio, {rate:g} tok/s. is this ok?\n")


def test_speed_just_below_the_interval_is_normal():
    subject = asked(128)
    assert subject.expected.achievable[DECODE].low > 128
    assert subject.verdict == "normal"
    assert speed_question(subject) == "ok"
    assert "too little is known" not in subject.summary


def test_speed_below_usual_is_slow_with_ranked_suspects(wording):
    subject = asked(110)
    assert subject.verdict == "slow"
    wording(subject.summary)
    little, much = (re.search(r"most likely first: (.*?)\.", asked(rate).summary) for rate in (110, 20))
    assert little
    assert much
    assert "backend" not in little[1], "without a GPU it would be far slower"
    assert "backend" in much[1]
    assert "sampling" not in much[1], "it can't cost so much"


def test_speed_above_usual_is_normal_and_doubts_the_prediction(wording):
    assert asked(185).verdict == "normal"
    wording(asked(185).summary)


def test_speed_above_the_memory_ceiling_gives_cannot_tell(wording):
    assert asked(2000).verdict == "cannot_tell"
    wording(asked(2000).summary)


def test_former_higher_speed_is_compared_with_the_usual_one():
    subject = report("RTX 4090, llama 3.1 8b Q4_K_M gguf in LM Studio, 140 tok/s, was 160 before the update\n")
    assert "too little is known" not in subject.summary
