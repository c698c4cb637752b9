"""What to do next is said in words of the runtime at hand, or not at all."""

import msgspec
from told import pasted

from unslow.facts.snapshot import Case
from unslow.think.judge import judge
from unslow.think.report import Untold
from unslow.think.summary import summary

ELSEWHERE = Untold(cause="answer_is_mostly_thinking", missing="x", because="", how_to_get="`ollama run MODEL`")
HERE = Untold(cause="flash_attention_off", missing="x", because="", how_to_get="`llama-bench -fa 0,1`")


def said(case: Case, *untold: Untold, advice: str | None = None, phase: str = "decode") -> str:
    report = msgspec.structs.replace(judge(case), verdict="cannot_tell", cannot_tell=untold, phase=phase)
    return summary(case, report, advice).summary


def measured(runtime: str) -> Case:
    return pasted(runtime={"name": runtime, "decode_tokens_per_s": 7.0})


def test_an_advice_for_another_runtime_is_not_given():
    assert "ollama" not in said(measured("vLLM"), ELSEWHERE, HERE)
    assert "llama-bench" in said(measured("llama.cpp"), ELSEWHERE, HERE)
    assert "To find out" not in said(measured("MLX-LM"), ELSEWHERE, HERE)


def test_a_suspicion_comes_before_the_causes_of_the_slow_phase():
    suspected = msgspec.structs.replace(ELSEWHERE, suspected=True)
    assert "ollama run" in said(measured("Ollama"), HERE, suspected)


def test_what_a_text_is_asked_for_is_the_advice():
    assert said(measured("Ollama"), ELSEWHERE, advice="`ollama ps`").endswith("To find out: `ollama ps`.")
    assert "To find out" not in said(measured("Ollama"), ELSEWHERE, advice="")
