"""Advice for pasted text: a context that fits, the mildest fix first, commands for its operating system."""

import re
from pathlib import Path

import pytest

from unslow.commands._formats import render
from unslow.commands.diagnose.target import read_stored
from unslow.commands.fit import FitRequest
from unslow.commands.fit.gguf import gguf_answer
from unslow.commands.triage.pasted_text import triage
from unslow.facts.values import GIB, MIB
from unslow.look.system.live import LiveSystem
from unslow.think.judge.judge import diagnose
from unslow.think.report import Fix, SubjectReport

PASTES = Path(__file__).parents[2] / "app" / "pastes"
STEP = 1024
PS = """\
NAME    ID              SIZE     PROCESSOR          CONTEXT    UNTIL
{name}    7cdf5a0187d5    {size} GB    40%/60% CPU/GPU    {context}      4 minutes from now
"""


def report(text: str) -> SubjectReport:
    return triage([text.encode()], "paste").report.subjects[0]


def pasted(name: str) -> str:
    return (PASTES / f"{name}.txt").read_text()


def most_context(model: str, device: str, context: int, held_bytes: int, quant: str = "Q4_K_M") -> int:
    """By `unslow fit --runtime ollama`, with what others hold added to its margin."""
    request = FitRequest(
        model=model, quant=quant, devices=(device,), context=context, runtime="ollama", margin_bytes=GIB + held_bytes
    )
    most = gguf_answer(LiveSystem(), request).max_context
    assert most
    return most // STEP * STEP


def fixes(subject: SubjectReport) -> list[tuple[str, object]]:
    return [(fix.knob, fix.value) for fix in subject.findings[0].fixes]


def item(subject: SubjectReport, begin: str) -> tuple[str, str]:
    return next((i.state, i.because) for i in subject.checklist if i.item.startswith(begin))


def test_spill_on_linux_gets_the_context_that_fits(wording):
    subject = report(pasted("ollama_spill_linux"))
    fits = most_context("qwen2.5-14b", "RTX 3060", 32768, 651 * MIB)
    assert fits < 12032, "less than on an empty card"
    assert fixes(subject)[0] == ("context_length", fits)
    wording(subject.summary, tells="651 MiB")
    assert f"num_ctx {fits}" in subject.summary
    assert "but it does not fit" not in subject.summary
    for begin, share in (("Is the whole model", "60%"), ("Is the GPU busy", "17%")):
        state, because = item(subject, begin)
        assert state == "bad"
        wording(because, tells=share)


def test_unknown_process_memory_assumes_a_desktop_and_says_so(wording):
    subject = report(pasted("ollama_spill_windows"))
    assert fixes(subject)[0] == ("context_length", most_context("llama-3.1-8b", "RTX 4060", 16384, GIB))
    wording(subject.findings[0].fixes[0].why)


@pytest.mark.parametrize(
    ("tag", "model", "quant", "device", "context"),
    [
        ("mistral:7b", "mistral-7b", "Q4_K_M", "RTX 2070", 32768),
        ("qwen2.5:32b", "qwen2.5-32b", "Q4_K_M", "RTX 3090", 32768),
        ("llama3.1:8b-instruct-q8_0", "llama-3.1-8b", "Q8_0", "RTX 3060", 65536),
        ("phi4:14b", "phi-4", "Q4_K_M", "RTX 4070", 16384),
    ],
)
def test_gpu_named_in_prose_is_enough_for_a_context(tag: str, model: str, quant: str, device: str, context: int):
    text = PS.format(name=tag, size=99, context=context) + f"I have a {device}, only 5 tokens/s. Why?"
    knob, value = fixes(report(text))[0]
    fits = most_context(model, device, context, GIB, quant)
    assert (knob, value) == ("context_length", fits)


def test_shared_memory_spill_shrinks_the_cache_before_the_weights():
    subject = report(pasted("llama_cpp_lent_memory"))
    assert subject.findings[0].cause == "driver_spills_to_shared_memory"
    knobs = [knob for knob, _ in fixes(subject)]
    assert knobs == ["context_length", "quant", "driver_fallback"]
    first = subject.findings[0].fixes[0]
    assert isinstance(first.value, int)
    assert 32768 <= first.value < 131072
    assert "with a q8_0 cache" in first.why


def smaller_quant(subject: SubjectReport) -> Fix:
    return next(fix for fix in subject.findings[0].fixes if fix.knob == "quant")


def test_smaller_quant_assumes_a_quantized_cache():
    assert "beside a q8_0 cache" in smaller_quant(report(pasted("ollama_spill_linux"))).why
    assert "IQ2" not in smaller_quant(report(pasted("ollama_spill_linux"))).why


def test_heat_at_low_power_is_thermal_throttling(wording):
    subject = report(pasted("hot_3090"))
    assert subject.findings[0].cause == "gpu_thermal_throttling"
    assert "(91 °C)" in subject.summary
    assert "118 of 350 W" in subject.summary
    state, because = item(subject, "Is the GPU's temperature")
    assert state == "bad"
    wording(because, tells=("91 °C", "118 of 350 W", "99%"))


@pytest.mark.parametrize(
    ("hot", "power", "busy"),
    [("70C", "118W", "99%"), ("83C", "340W", "99%"), ("91C", "340W", "99%"), ("91C", "118W", "30%")],
)
def test_heat_or_low_power_alone_is_not_thermal_throttling(hot: str, power: str, busy: str):
    text = pasted("hot_3090").replace("91C", hot).replace("118W", power).replace("99%", busy)
    assert "gpu_thermal_throttling" not in [finding.cause for finding in report(text).findings]


def commands(subject: SubjectReport) -> str:
    return "\n".join(line for finding in subject.findings for fix in finding.fixes for line in fix.commands)


@pytest.mark.parametrize(
    ("prompt", "spelled"),
    [
        (r"PS C:\Users\bob> ", "setx"),
        ("C:\\>", "setx"),
        (r"(base) C:\llm>", "setx"),
        ("bob@Bobs-MacBook-Pro ~ % ", "launchctl"),
        ("bob@server:~$ ", "systemctl"),
        ("PS C:\\Users\\bob> ssh server\nbob@server:~$ ", "systemctl"),
        ("", "systemctl"),
    ],
)
def test_commands_match_the_pasted_shell_prompt(prompt: str, spelled: str):
    shown = PS.format(name="qwen2.5:14b", size=16, context=32768)
    assert spelled in commands(report(f"{prompt}ollama ps\n{shown}RTX 3060, 5 tokens/s"))


def test_driver_model_wddm_means_windows():
    text = pasted("ollama_spill_windows")
    without_prompts = "\n".join(line for line in text.splitlines() if not line.startswith("PS ") and ".exe" not in line)
    assert "setx" in commands(report(without_prompts))


def shown(text: str) -> str:
    return render(triage([text.encode()], "paste").report, "terminal", width=100, color=False)


def test_headings_without_content_are_not_shown():
    assert "How fast" not in shown("help my computer is slow\n")


def test_budget_without_known_parts_is_not_shown():
    times = """\
prompt eval time =   20000.00 ms /  4000 tokens (    5.00 ms per token,   200.00 tokens per second)
       eval time =   11111.00 ms /   100 tokens (  111.11 ms per token,     9.00 tokens per second)
      total time =   31111.00 ms /  4100 tokens
"""
    assert "unexplained" not in shown(pasted("llama_cpp_lent_memory") + times)


def test_headline_and_fix_name_the_same_expected_speed(wording):
    machine = Path(__file__).parents[2] / "machines/h200_llama_server_gpu_layers_set_too_low"
    summary = diagnose(read_stored(str(machine))).subjects[0].summary
    hardware, fix = re.findall(r"about \d+", summary)
    assert hardware == fix, summary
    wording(summary)
