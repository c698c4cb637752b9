"""The diagnosis in a terminal, and how numbers are formatted."""

import json
import re

import msgspec
import pytest
from all_firing import FIRING
from cases import cpu_case, gpu_case, with_facts
from several_gpus import two_gpus

from unslow.commands._formats import render
from unslow.show.units import fix_effect, label, rate, size, span, value_text
from unslow.think.case.speed import DECODE
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import (
    BudgetPart,
    ContradictionShown,
    Cost,
    Evidence,
    Fix,
    Question,
    Report,
    SubjectReport,
    Untold,
)

LITTLE = Fix(knob="kv_type", value="q8_0", why="halves the cache", predicted={DECODE: 30.0})

PROMISED = {"runtime", "model", "devices", "verdict", "phase", "measured", "expected", "budget", "findings"} | {
    "ruled_out",
    "cannot_tell",
    "checklist",
}


def shown(case, form="terminal", width=100, **more):
    report = Report(unslow_version="0", machine={}, subjects=(judge(CaseView(case)),))
    return render(report, form, width=width, color=False, **more)


def around(text: str, about: str, before: int = 0, after: int = 0) -> str:
    """The line that holds this fact, with some of those before and after it."""
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if about in line)
    return "\n".join(lines[at - before : at + after + 1])


def test_verdict_comes_first():
    assert shown(gpu_case()).startswith(" NORMAL ")
    assert shown(FIRING["memory_allocation_failed"]()).startswith(" FAILED ")


def test_finding_shows_its_evidence_its_fix_and_its_gain(wording):
    text = shown(FIRING["gpu_layers_set_too_low"]())
    wording(text, about="gpu_layers_set_too_low")
    wording(re.search(r"\d+\.\d×(.*)", text)[1])
    wording(text, about="(33 layers", tells="20")
    wording(re.search(r" fix +(.*→ \D*)[\d.]+ tok/s", text)[1])


def test_causal_chain_has_one_cost_and_its_root_first():
    text = shown(FIRING["other_process_holds_vram"]())
    assert re.search(r"1\. .*\(other_process_holds_vram, .*\n +→ .*\(weights_spill_to_ram\)", text)
    assert len(re.findall(r"^ +costs ", text, re.MULTILINE)) == 1
    assert not re.search(r"^ +2\. ", text, re.MULTILINE)
    evidence = f"{label('runtime.placement.gpu_layers')}: "
    assert evidence not in text, "the evidence of what follows is shown on demand"
    assert evidence in shown(FIRING["other_process_holds_vram"](), everything=True)


def test_consequence_with_a_much_smaller_gain_shows_no_fix():
    subject = judge(CaseView(FIRING["other_process_holds_vram"]()))
    root, *after = subject.findings
    links = [msgspec.structs.replace(link, fixes=(LITTLE,)) for link in after]
    rich = msgspec.structs.replace(root, fixes=(msgspec.structs.replace(LITTLE, predicted={DECODE: 200.0}, why="x"),))
    text = shown_text(msgspec.structs.replace(subject, findings=(rich, *links)))
    assert LITTLE.why not in text
    poor = msgspec.structs.replace(root, fixes=(msgspec.structs.replace(LITTLE, predicted={DECODE: 31.0}, why="x"),))
    assert LITTLE.why in shown_text(msgspec.structs.replace(subject, findings=(poor, *links)))


def test_expected_gain_of_a_fix_has_its_own_unit(wording):
    assert fix_effect({DECODE: 219.4, "time_to_first_token_s": 0.1}) == "about 219 tok/s"
    wording(fix_effect({"prefill_tokens_per_s": 8000.0}), tells="8,000 tok/s")
    wording(fix_effect({"time_to_first_token_s": 0.11}), tells="110 ms")
    assert fix_effect({}) == ""


def test_cost_at_depth_says_the_context_depth(wording):
    subject = judge(CaseView(FIRING["gpu_layers_set_too_low"]()))
    deep = Cost(seconds=0.02, per="token", depth_tokens=16384)
    text = shown_text(
        msgspec.structs.replace(subject, findings=(msgspec.structs.replace(subject.findings[0], cost=deep),))
    )
    wording(text, about="16,384", tells="20 ms")


def test_failed_load_shows_no_open_questions():
    text = shown(FIRING["memory_allocation_failed"]())
    assert "  ? " not in text
    assert "unknown hardware" not in text


def test_evidence_already_in_because_is_not_repeated(wording):
    subject = judge(CaseView(FIRING["gpu_layers_set_too_low"]()))
    words = "7.0 requests waited on average while it was watched"
    seen = Evidence(fact="run.traffic", value=words, reference="7 looks", origin="measured", source="/slots")
    one = msgspec.structs.replace(subject.findings[0], because=f"one at a time: {words}", evidence=(seen,), explains=())
    text = shown_text(msgspec.structs.replace(subject, findings=(one,)), width=200)
    wording(text, about="7 looks", tells="/slots")


def test_second_cause_without_further_gain_says_so(wording):
    text = shown(with_facts(gpu_case(layers_on_gpu=0), {"runtime.compute.threads": 32, "run.decode_tokens_per_s": 1.0}))
    wording(text, about="; alone")


def test_every_measured_phase_shows_its_parts(wording):
    text = shown(with_facts(FIRING["gpu_layers_set_too_low"](), {"run.queue_s": 4.0}))
    wording(text, about="Time in the queue")  # one part needs no bar
    wording(re.search(r"^(Time per token: )[\d.]+( ms.*)$", text, re.MULTILINE).groups())


def test_small_budget_parts_are_folded_without_all(wording):
    budget = (
        BudgetPart(phase="decode", part="host memory reads", seconds=0.03, per="token"),
        *(BudgetPart(phase="decode", part=f"tiny {n}", seconds=1e-4, per="token") for n in range(4)),
        BudgetPart(phase="decode", part="unexplained", seconds=0.0, per="token"),
    )
    subject = msgspec.structs.replace(judge(CaseView(gpu_case())), budget=budget)
    wording(shown_text(subject), about="400 µs", tells="4")
    assert "tiny 3" not in shown_text(subject)
    assert "tiny 3" in shown_text(subject, everything=True)


def test_ruled_out_causes_are_counted_and_listed_with_all(wording):
    wording(re.sub(r"\d+", "N", around(shown(gpu_case()), "--all")))
    row = f"\n  {judge(CaseView(gpu_case())).ruled_out[0].cause} "
    assert row in shown(gpu_case(), everything=True)
    assert row not in shown(gpu_case())


def test_report_without_findings_says_what_to_measure_next(wording):
    text = shown(with_facts(gpu_case(), {"run.decode_tokens_per_s": 60.0}))
    more = wording(around(text, "--all", after=1).splitlines()[1])
    assert "ollama" not in text.split(more)[1], "the server is llama.cpp"
    assert more not in shown(gpu_case())


def test_undetermined_causes_are_counted_and_listed_with_all(wording):
    case = msgspec.structs.replace(gpu_case(), run=cpu_case().run.__class__())
    row = f"\n  {judge(CaseView(case)).cannot_tell[-1].cause} "
    assert row in shown(case, everything=True)
    assert row not in shown(case)
    wording(re.sub(r"\d+", "N", around(shown(case), "--all")))


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", list(FIRING))
def test_lines_fit_the_terminal_width(name, width):
    assert all(len(line) <= width for line in shown(FIRING[name](), width=width).splitlines())


def test_color_false_gives_no_escape_sequences():
    assert "\x1b" not in shown(gpu_case())
    coloured = render(
        Report(unslow_version="0", machine={}, subjects=(judge(CaseView(gpu_case())),)),
        "terminal",
        width=80,
        color=True,
    )
    assert "\x1b" in coloured


def test_json_holds_every_promised_field():
    subject = json.loads(shown(FIRING["other_process_holds_vram"](), "json"))["subjects"][0]
    assert subject.keys() >= PROMISED
    assert set(subject["expected"]) >= {"as_configured", "achievable", "ceiling_tokens_per_s", "basis"}
    finding = subject["findings"][0]
    assert {"cause", "confidence", "because", "evidence", "explains", "cost", "speedup", "fixes"} <= finding.keys()
    assert {"fact", "value", "reference", "origin", "source"} <= finding["evidence"][0].keys()
    assert {"knob", "value", "commands", "risk", "predicted"} <= finding["fixes"][0].keys()
    assert {"phase", "part", "seconds", "per"} <= subject["budget"][0].keys()
    assert {"item", "state", "because"} <= subject["checklist"][0].keys()


def test_sizes_rates_and_times_are_formatted_with_units():
    assert size(5 * 1024**3) == "5.0 GiB"
    assert size(300 * 1024**2) == "300 MiB"
    assert (rate(219.4), rate(12.34), rate(1.234)) == ("219", "12.3", "1.23")
    assert (span(2.5), span(0.0123), span(2e-6)) == ("2.5 s", "12.3 ms", "2 µs")
    assert (span(599), span(2660), span(7200), span(36000), span(4e6)) == (
        "599 s", "44.3 min", "120 min", "10.0 h", "1,111 h",
    )  # fmt: skip
    assert value_text("x_bytes", 1024**3) == "1.0 GiB"
    assert value_text("x_bytes_per_s", 2e9) == "2.0 GB/s"
    assert value_text("x", True) == "yes"


def of_a_text(**changes) -> SubjectReport:
    """The report of a text: something was understood, and commands are asked for."""
    known = Evidence(fact="run.decode_tokens_per_s", value=7.0, reference=None, origin="told", source="report.txt:3")
    usual = {"known": (known,), "ask_next": (Question(command="ollama ps", why="shows the share"),)}
    return msgspec.structs.replace(judge(CaseView(FIRING["gpu_layers_set_too_low"]())), **(usual | changes))


def shown_text(subject, width=100, **more):
    return render(
        Report(unslow_version="0", machine={}, subjects=(subject,)), "terminal", width=width, color=False, **more
    )


GUESS = Untold(cause="queueing", missing="run.queue_s", because="not looked at", how_to_get="")
SUSPICION = Untold(cause="swapping", missing="x", because="it swaps", how_to_get="run vmstat", suspected=True)


def test_facts_read_from_a_text_show_their_line(wording):
    wording(shown_text(of_a_text()), about="report.txt:3", tells="7.00 tok/s")


def test_commands_to_copy_are_not_wrapped():
    long = "nvidia-smi --query-gpu=" + ",".join(f"field_{n}" for n in range(30))
    text = shown_text(of_a_text(ask_next=(Question(command=long, why="shows it"),)), width=60)
    assert f"  {long}\n" in text


def test_suspected_causes_come_before_other_undetermined_ones(wording):
    text = shown_text(of_a_text(cannot_tell=(GUESS, SUSPICION)))
    wording(around(text, "swapping", before=1), tells=("it swaps", "run vmstat"))
    wording(text, about="--all", tells="1")
    assert "queueing" not in text
    everything = shown_text(of_a_text(cannot_tell=(GUESS, SUSPICION)), everything=True)
    wording(around(everything, "queueing", before=1))


def test_text_without_facts_shows_questions_but_no_lists():
    text = shown_text(of_a_text(known=(), cannot_tell=(GUESS,)))
    assert "ollama ps" in text
    assert "queueing" not in text
    assert "  ? " not in text, "no open question of the checklist"


def test_undetermined_causes_of_a_live_machine_are_listed_with_all():
    live = of_a_text(known=(), ask_next=(), cannot_tell=(GUESS,))
    assert "queueing" in shown_text(live, everything=True)
    assert re.search(r" 1 \D+--all", shown_text(live))


def test_contradictions_are_shown_with_their_meaning(wording):
    item = ContradictionShown(about="context_length", says=("8192 [a:1]", "4096 [b:2]"), meaning="It was reduced.")
    text = shown_text(of_a_text(contradictions=(item,)))
    wording(around(text, "context_length", before=1, after=1), tells=(*item.says, item.meaning))


def test_equal_gpus_are_counted_in_the_headline(wording):
    wording(shown(two_gpus()).splitlines()[0], tells="RTX 4090")
    assert " x " not in shown(gpu_case()).splitlines()[0]
