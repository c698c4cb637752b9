"""What is requested, which plan and model that means, and whether the machine is free for it."""

import msgspec
import pytest
from doubles import Quiet

from unslow.commands._dispatch import parse_words
from unslow.commands.tune import TuneRequest
from unslow.commands.tune.search import Source, check_request, company, hand_of, plan_request, source_of, tune
from unslow.facts.errors import UserError
from unslow.facts.machine import Cpu, Gpu, GpuProcess, Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import reported_fact
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.system.live import LiveSystem
from unslow.think.plan.report import ChangeShown, GoalShown, OptionShown, PlanReport, QualityShown

SYSTEM = LiveSystem()
GOAL = GoalShown(aim="speed", context=512, prompt_tokens=64, kept_tokens=0, answer_tokens=32, users=1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return str(ModelCache(tmp_path_factory.mktemp("cache")).model("tiny"))


def request(*words: str) -> TuneRequest:
    asked = parse_words(["tune", *words])[1]
    check_request(asked)
    return asked


def plan(path: str = "", **others: object) -> PlanReport:
    commands = (f"shell: llama-server -m {path} -c 512",) if path else ()
    option = OptionShown(
        name="it", quant="F16", context=512, changes=(), settings=(ChangeShown(knob="context_length", value=512),),
        speed=None, quality=QualityShown(perplexity_increase=None), commands=commands,
    )  # fmt: skip
    report = PlanReport(
        unslow_version="0", model="tiny", runtime="llama.cpp", machine="", goal=GOAL, verdict="better", recommended=0,
        options=(option,),
    )  # fmt: skip
    return msgspec.structs.replace(report, **others)


def written(tmp_path, report: PlanReport) -> str:
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(report))
    return str(path)


def test_flags_become_a_plan_request():
    asked = request("model.gguf", "--prompt", "1k", "--answer", "64", "--seconds", "30", "--worst-perplexity", "1%")
    plan = plan_request(asked)
    assert (plan.prompt, plan.answer, asked.seconds) == (1024, 64, 30.0)
    assert (plan.model, plan.worst_perplexity_increase, asked.is_plan) == ("model.gguf", 0.01, False)
    assert request("p.json", "--model", "m.gguf").model == "m.gguf"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("m.gguf", "--seconds", "1"), "--seconds must be between 5 and 86,400 (got 1)"),
        (("m.gguf", "--answer", "2"), "--answer must be between 8 and"),
        (("m.gguf", "--model", "n.gguf"), "omit it"),
        (("http://127.0.0.1:8080",), "is already running"),
    ],
)
def test_invalid_flags_are_refused(words, why):
    with pytest.raises(UserError) as caught:
        request(*words)
    assert why in f"{caught.value.message} {caught.value.hint}"


def test_saved_plan_names_its_model_and_work(tmp_path, tiny):
    file = written(tmp_path, plan(tiny))
    source = source_of(SYSTEM, request(file))
    assert source.found.source == tiny
    assert (source.work.prompt_tokens, source.work.answer_tokens) == (64, 32)
    other = source_of(SYSTEM, request(file, "--prompt", "100", "--kept", "50", "--answer", "16"))
    assert (other.work.prompt_tokens, other.work.kept_tokens, other.work.answer_tokens) == (100, 50, 16)


def test_plan_without_a_file_needs_model(tmp_path, tiny, wording):
    file = written(tmp_path, plan())
    assert source_of(SYSTEM, request(file, "--model", tiny)).found.source == tiny
    with pytest.raises(UserError) as caught:
        source_of(SYSTEM, request(file))
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("changes", "flags", "why"),
    [
        ({"verdict": "impossible", "reason": "nothing fits"}, (), "no plan to search around: nothing fits"),
        ({"runtime": "vllm"}, (), "supports only llama.cpp"),
        ({}, ("--context", "1024"), "another context"),
        ({}, ("--prompt", "500"), "does not fit the plan's context"),
    ],
)
def test_impossible_plans_are_refused(tmp_path, tiny, changes, flags, why):
    with pytest.raises(UserError, match=why):
        source_of(SYSTEM, request(written(tmp_path, plan(tiny, **changes)), *flags))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "unslow.plan/1"}', '{"schema": "unslow.fit/1"}', "\xff"])
def test_invalid_plan_files_are_refused(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"plan\.json"):
        source_of(SYSTEM, request(str(path)))
    with pytest.raises(UserError, match=r"none\.json"):
        source_of(SYSTEM, request(str(tmp_path / "none.json")))


def test_cores_layers_and_draft_are_read(tmp_path, tiny):
    source: Source = source_of(SYSTEM, request(written(tmp_path, plan(tiny))))
    cpu = Cpu(
        physical_cores=reported_fact(4, "x"), logical_cpus=reported_fact(8, "x"), allowed_cpus=reported_fact(6, "x")
    )
    hand = hand_of(SYSTEM, source, cpu, tiny)
    assert (hand.cores, hand.logical, hand.draft) == (4, 6, tiny)
    assert hand.draft_bytes > 0
    assert hand.layers == len(hand.pieces.layers) > 0
    named = msgspec.structs.replace(
        source.plan.options[0], settings=(ChangeShown(knob="model_file", value=tiny), *source.plan.options[0].settings)
    )
    other = source._replace(plan=plan(tiny, options=(named,)), found=source.found._replace(quant="another"))
    assert hand_of(SYSTEM, other, cpu, None).quant == source.found.quant
    with pytest.raises(UserError, match="not a GGUF file"):
        hand_of(SYSTEM, source, cpu, "nothing.gguf")


def seen(*, gpu: bool, server: bool, vram: int = 2**30) -> Snapshot:
    process = GpuProcess(pid=7, name=reported_fact("blender", "x"), vram_bytes=reported_fact(vram, "x"))
    card = Gpu(index=0, name=reported_fact("NVIDIA GeForce RTX 4090", "x"), vendor=reported_fact("nvidia", "x"),
               kind=reported_fact("discrete", "x"), processes=reported_fact([process], "x"))  # fmt: skip
    runtime = Runtime().with_facts(
        name=reported_fact("llama.cpp", "x"), url=reported_fact("http://127.0.0.1:8080", "x")
    )
    machine = Machine(gpus=reported_fact((card,) if gpu else (), "x"))
    subjects = (Subject(runtime=runtime),) if server else ()
    return Snapshot(unslow_version="0", taken_at="", machine=machine, subjects=subjects)


def test_other_processes_on_the_gpu_need_yes(wording):
    with pytest.raises(UserError) as caught:
        company(seen(gpu=True, server=True), allowed=False)
    wording(str(caught.value), tells="http://127.0.0.1:8080")
    assert "--yes" in caught.value.hint
    notes = company(seen(gpu=True, server=True), allowed=True)
    assert "blender (7)" in notes[0]
    small = company(seen(gpu=True, server=False, vram=2**20), allowed=False)
    assert not any("other processes" in note for note in small)


def test_server_without_a_gpu_is_only_noted():
    assert "llama.cpp at" in company(seen(gpu=False, server=True), allowed=False)[0]


def test_environment_settings_are_noted(monkeypatch):
    monkeypatch.setenv("LLAMA_ARG_THREADS", "3")
    assert "LLAMA_ARG_THREADS" in company(seen(gpu=False, server=False), allowed=False)[-1]


def test_missing_llama_server_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="does not exist") as caught:
        tune(request("m.gguf", "--server", str(tmp_path / "llama-server")), Quiet())
    assert "--server" in caught.value.hint
