"""The summary says what to do next in terms of the runtime in use."""

import msgspec
from all_firing import FIRING
from cases import gpu_case, r, with_facts
from engines import vllm
from made_up_telemetry import traffic
from told import pasted

from unslow.facts.run import LongPrompt
from unslow.facts.snapshot import Case
from unslow.facts.values import not_found
from unslow.think.case.view import CaseView
from unslow.think.judge.headline import LONGEST_COMMAND, first_fix
from unslow.think.judge.judge import judge
from unslow.think.judge.summary import summary
from unslow.think.report import BudgetPart, Fix, SubjectReport, Untold

ELSEWHERE = Untold(cause="answer_is_mostly_thinking", missing="x", because="", how_to_get="`ollama run MODEL`")
HERE = Untold(cause="flash_attention_off", missing="x", because="", how_to_get="`llama-bench -fa 0,1`")


def said(case: Case, *untold: Untold, advice: str | None = None, phase: str = "decode") -> str:
    report = msgspec.structs.replace(judge(CaseView(case)), verdict="cannot_tell", cannot_tell=untold, phase=phase)
    return summary(CaseView(case), report, advice).summary


def measured(runtime: str) -> Case:
    return pasted(runtime={"name": runtime, "decode_tokens_per_s": 7.0})


def test_advice_for_another_runtime_is_not_given(wording):
    assert "ollama" not in said(measured("vLLM"), ELSEWHERE, HERE)
    assert "llama-bench" in said(measured("llama.cpp"), ELSEWHERE, HERE)
    wording(said(measured("MLX-LM"), ELSEWHERE, HERE))


def test_suspicion_comes_before_causes_of_the_slow_phase():
    suspected = msgspec.structs.replace(ELSEWHERE, suspected=True)
    assert "ollama run" in said(measured("Ollama"), HERE, suspected)


def test_question_for_a_text_is_the_advice(wording):
    wording(said(measured("Ollama"), ELSEWHERE, advice="`ollama ps`"))
    wording(said(measured("Ollama"), ELSEWHERE, advice=""))


def fixed_by(*commands: str, why: str = "a shorter context", **predicted: float) -> str:
    report = judge(CaseView(FIRING["context_larger_than_needed"]()))
    fix = Fix(knob="context_length", value=4096, why=why, commands=commands, predicted=predicted)
    return first_fix(msgspec.structs.replace(report, findings=(with_fix(report, fix),)))


def with_fix(report: SubjectReport, fix: Fix):
    return msgspec.structs.replace(report.findings[0], fixes=(fix,), explains=())


def test_first_fix_is_a_command_with_its_expected_gain(wording):
    said = fixed_by("-c 4096", "llama-server -c 4096", decode_tokens_per_s=231.9)
    wording(said, tells=("-c 4096", "232"))
    wording(fixed_by("in a chat: /set x"))
    wording(fixed_by())


def test_long_command_is_shortened_to_its_flag(wording):
    wording(fixed_by("-c 4096", f"llama-server {'-x ' * LONGEST_COMMAND}"), tells="-c 4096")
    wording(fixed_by("by hand: quit it"))


def test_normal_speed_has_no_fix():
    report = judge(CaseView(FIRING["context_larger_than_needed"]()))
    assert first_fix(msgspec.structs.replace(report, verdict="normal")) == ""


def test_normal_speed_says_where_the_time_goes(wording):
    told = judge(CaseView(gpu_case())).summary
    wording(told)
    assert "  " not in told
    launches = BudgetPart(phase="decode", part="kernel launches", seconds=0.004, per="token")
    reads = BudgetPart(phase="decode", part="device memory reads", seconds=0.001, per="token")
    expected = msgspec.structs.replace(judge(CaseView(gpu_case())).expected, ceiling_tokens_per_s=1000.0)
    report = msgspec.structs.replace(judge(CaseView(gpu_case())), budget=(launches, reads), expected=expected)
    told = summary(gpu_case(), report).summary
    wording(told, tells=("80%", "20%"))


def test_speed_above_expectation_says_the_prediction_was_low(wording):
    report = judge(CaseView(gpu_case()))
    likely = report.expected.achievable["decode_tokens_per_s"]
    rates = ({"decode_tokens_per_s": rate} for rate in (likely.mid, 1.05 * likely.high))
    told = (msgspec.structs.replace(report, verdict="normal", measured=rate) for rate in rates)
    usual, fast = (summary(CaseView(gpu_case()), one).summary for one in told)
    wording(usual)
    wording(fast, tells=(f"{likely.low:.3g}", f"{likely.high:.3g}"))


def test_root_cause_is_named_with_its_consequence(wording):
    report = judge(CaseView(FIRING["other_process_holds_vram"]()))
    wording(report.summary)


def test_findings_that_explain_little_say_what_to_measure(wording):
    case = FIRING["threads_exceed_cores"]()
    report = judge(CaseView(case))
    (first, *_), rate = report.findings, report.measured["decode_tokens_per_s"]
    little = msgspec.structs.replace(
        first, cost=msgspec.structs.replace(first.cost, seconds=0.02 / rate), speedup=1.02, explains=()
    )
    said = summary(case, msgspec.structs.replace(report, findings=(little,)), "run it again").summary
    wording(said, tells="run it again")
    wording(judge(CaseView(FIRING["gpu_layers_set_too_low"]())).summary)


def spilled_by_the_driver(prompt_s: float):
    """The driver lends memory; tokens come nearly as they should, and a prompt takes so long."""
    facts = {"run.decode_tokens_per_s": 90.0, "run.long_prompt": LongPrompt(tokens=2048, seconds=prompt_s)}
    return judge(CaseView(with_facts(FIRING["driver_spills_to_shared_memory"](), facts)))


def test_headline_speed_is_the_one_the_cause_is_about(wording):
    """Another phase may lose more time, because its prediction is wide or as a consequence."""
    report = spilled_by_the_driver(prompt_s=10.0)
    assert (report.phase, report.findings[0].phase) == ("prefill", "decode")
    wording(report.summary, tells=("90", "205"))
    assert "prompts" not in spilled_by_the_driver(prompt_s=0.4).summary


def test_prefill_cause_does_not_explain_slow_decode(wording):
    long = LongPrompt(tokens=2048, seconds=2.0)
    slow = {"run.decode_tokens_per_s": 20.0, "runtime.compute.ubatch": 16, "run.long_prompt": long}
    report = judge(CaseView(with_facts(FIRING["prefill_batch_too_small"](), slow)))
    assert (report.phase, {f.phase for f in report.findings}) == ("decode", {"prefill"})
    wording(report.summary, tells="20")


def test_environment_variable_of_a_unit_is_in_the_sentence(wording):
    line = """printf '[Service]\\nEnvironment="OLLAMA_KEEP_ALIVE=-1"\\n' | sudo tee /etc/systemd/system/o.d/x.conf"""
    wording(fixed_by(line, why="keep it loaded"), tells="OLLAMA_KEEP_ALIVE")


def test_unload_command_is_not_the_first_fix():
    assert "`lms load m --gpu 0.67`" in fixed_by("lms unload m", "lms load m --gpu 0.67")


def test_unexplained_wait_is_mentioned_beside_a_normal_speed(wording):
    waits = Untold(
        cause="slow_model_load", missing="x", because="the load took 96 s", how_to_get="`winsat disk`", suspected=True
    )
    report = msgspec.structs.replace(judge(CaseView(gpu_case())), verdict="normal", cannot_tell=(HERE, waits))
    told = summary(CaseView(gpu_case()), report).summary
    wording(told, tells="96 s")
    quiet = msgspec.structs.replace(report, cannot_tell=(HERE,))
    wording(summary(CaseView(gpu_case()), quiet).summary)


def test_decode_cost_is_mentioned_beside_a_queue(wording):
    seen = {"each_tokens_per_s": r(23.0), "each_among": 2.0}
    served = {
        "runtime.compute.quantization": "awq", "runtime.scheduling.max_sequences": 2,
        "run.traffic": traffic(2.0, 14.0, **seen), "run.queue_s": 40.0, "run.decode_tokens_per_s": not_found("busy"),
    }  # fmt: skip
    told = judge(CaseView(vllm(tensor_parallel=1, **served))).summary
    wording(told, tells="14")
