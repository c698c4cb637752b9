"""Every option as commands; knobs that the installed version lacks are left out of the search."""

import msgspec

from unslow.commands.plan.gguf import LACKING, abilities_of
from unslow.commands.plan.planner import Speller, left_out, with_commands
from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.think.plan.goal import Goal
from unslow.think.plan.report import ChangeShown, OptionShown, PlanReport, QualityShown

FILE = Model(name=reported_fact("Small", "test"), path=reported_fact("/models/small-Q4_K_M.gguf", "test"))


def option(**changes: object) -> OptionShown:
    turned = tuple(ChangeShown(knob=knob, value=value) for knob, value in changes.items())  # type: ignore[arg-type]
    return OptionShown(
        name="one", quant="Q4_K_M", context=4096, changes=turned, settings=turned, speed=None,
        quality=QualityShown(perplexity_increase=None),
    )  # fmt: skip


def report(*options: OptionShown) -> PlanReport:
    return PlanReport(
        unslow_version="0", model="Small", runtime="llama.cpp", machine="here", goal=Goal(4096).goal_shown(),
        verdict="better", recommended=0, options=options,
    )  # fmt: skip


def lines(speller: Speller, one: OptionShown) -> str:
    return "\n".join(with_commands(report(one), speller).options[0].commands)


def test_file_gets_a_complete_command() -> None:
    said = lines(Speller(Runtime(), FILE, fresh=True, name="llama.cpp"), option(context_length=4096, gpu_layers=12))
    assert said == "llama-server -m /models/small-Q4_K_M.gguf -ngl 12 -c 4096"


def test_ollama_creates_a_model_from_the_file() -> None:
    said = lines(Speller(Runtime(), FILE, fresh=True, name="ollama"), option(context_length=4096))
    assert "FROM /models/small-Q4_K_M.gguf" in said
    assert "num_ctx 4096" in said
    assert "ollama create" in said


def test_server_with_unknown_command_gets_a_complete_command() -> None:
    runs = Speller(Runtime(name=reported_fact("llama.cpp", "log")), FILE, fresh=False)
    assert lines(runs, option(context_length=4096, threads=4)).startswith("llama-server -m /models/small-Q4_K_M.gguf")


def test_option_in_a_quant_that_is_not_here_has_no_commands() -> None:
    fresh = Speller(Runtime(), FILE, fresh=True, name="llama.cpp")
    assert lines(fresh, option(model_file="Q6_K", context_length=4096)) == ""
    assert "-m /models/other.gguf" in lines(fresh, option(model_file="/models/other.gguf", context_length=4096))


def test_knob_the_runtime_lacks_is_named_as_a_risk(wording) -> None:
    old = Runtime(name=reported_fact("Ollama", "test"), version=reported_fact("0.12.9", "test"))
    ollama = Speller(old, FILE, fresh=False)
    one = option(context_length=4096, tensor_override="blk.1=CPU")
    assert list(left_out(report(one), ollama)) == [Knob.TENSOR_OVERRIDE]
    shown = with_commands(report(one), ollama).options[0]
    wording(shown.risk, tells="blk.1=CPU")
    assert "blk.1" not in "\n".join(shown.commands)


def test_missing_knobs_narrow_the_search() -> None:
    able = abilities_of("llama.cpp", [Knob.EXPERTS_ON_CPU, Knob.KV_CACHE_TYPE, Knob.BATCH])
    assert (able.apart, able.cache_on_host, able.cache_types, able.micro_batches) == (False, True, ("F16",), (512,))
    one_type = abilities_of("llama.cpp", [Knob.VALUE_CACHE_TYPE])
    assert not one_type.mixed_cache
    assert one_type.cache_types == abilities_of("llama.cpp").cache_types
    assert abilities_of("llama.cpp") == abilities_of("llama.cpp", [Knob.THREADS])
    assert Knob.KV_OFFLOAD in LACKING
    assert Knob.THREADS not in LACKING


def test_current_settings_have_their_command() -> None:
    fresh = Speller(Runtime(), FILE, fresh=True, name="llama.cpp")
    now = option(context_length=4096, gpu_layers=20, fit=False)
    shown = with_commands(msgspec.structs.replace(report(now), current=now), fresh).current
    assert shown
    assert "-c 4096" in shown.commands[-1]
    assert "-ngl" not in shown.commands[-1]
    runs = Runtime().with_facts(
        name=reported_fact("llama.cpp", "test"), command=reported_fact(["llama-server", "-m", "a b.gguf"], "test")
    )
    seen = with_commands(msgspec.structs.replace(report(now), current=now), Speller(runs, FILE, fresh=False)).current
    assert seen
    assert seen.commands == ("llama-server -m 'a b.gguf'",)
