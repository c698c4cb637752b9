import msgspec
from plans import option, plan

from unslow.commands._command_lines import commands_for
from unslow.commands.apply.prepare import changes_of, with_taken_away
from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact
from unslow.think.case.view import CaseView


def server(*words: str, name: str = "llama.cpp", **variables: str) -> Runtime:
    return Runtime().with_facts(
        name=reported_fact(name, "test"),
        command=reported_fact(["llama-server", "-m", "x.gguf", *words], "test"),
        environment=reported_fact(variables, "test"),
    )


def test_plan_for_a_file_applies_every_setting_and_removes_other_flags():
    settings = option("all", context_length=8192, kv_cache_type="q8_0").changes
    best = msgspec.structs.replace(option("KV q8_0", kv_cache_type="q8_0"), settings=settings)
    report = plan("llama.cpp", "x", best)
    runtime = server(
        "-c", "512", "-t", "1", "-ub", "32", "-ctv", "q4_0", "-fa", "on", "--port", "1", "-nkvo", LLAMA_ARG_BATCH="64"
    )
    spelled = commands_for(with_taken_away(changes_of(report, best), runtime), CaseView(Case(runtime=runtime)))
    given = ["-fa", "on", "--port", "1", "-c", "8192", "-ctk", "q8_0", "-ctv", "q8_0"]
    assert list(spelled.argv) == ["llama-server", "-m", "x.gguf", *given]
    assert spelled.environment == {"LLAMA_ARG_BATCH": None}
    assert not spelled.left_out


def test_disabling_flags_are_removed_and_user_choices_stay():
    kept = with_taken_away([], server("-dev", "CUDA1", "--mlock", "-fa", "on"))
    assert kept == []
    gone = with_taken_away([], server("-dev", "none", "-fa", "off"))
    assert {change.knob for change in gone} == {Knob.DEVICE, Knob.FLASH_ATTENTION}
    assert {change.value for change in gone} == {None}


def test_other_runtimes_lose_no_flags():
    changes = [Change(Knob.CONTEXT_LENGTH, 8192)]
    assert with_taken_away(changes, server("-t", "1", name="vLLM")) == changes
