"""Every verb prints the same command for the same change: each knob of each runtime."""

import shlex
from functools import cache

import msgspec
import pytest

from unslow.commands._command_lines import commands_for, subject_with_fix_commands
from unslow.commands.apply import ApplyRequest, prepare
from unslow.commands.fit import FitRequest, gguf, safetensors
from unslow.commands.fit import fit_model as fit
from unslow.commands.plan.planner import Speller
from unslow.commands.tune.search import line_of as tuned_line
from unslow.facts.commands import Place, parse_line
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, Subject
from unslow.facts.values import NOT_LOOKED, reported_fact
from unslow.look.command_writer.starters import shell_line
from unslow.look.runtimes import lookers
from unslow.look.system.live import LiveSystem
from unslow.page.what_if.memory_view import AskedSettings
from unslow.page.what_if.running import command_lines as page_line
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.plan.report import ChangeShown, GoalShown, OptionShown, PlanReport, QualityShown
from unslow.think.report import Finding, Fix
from unslow.think.stats.tuning_candidates import Candidate

VALUES: tuple[Setting, ...] = (
    None, True, False, -1, 0, 1, 4, 8192, 0.9, 2**29, "none", "layer", "q8_0", "f16", "fp8", "nf4", "mmap", "mlock",
    "CUDA1", "3,1", "all blocks", "draft-mtp", "DRAFT_MODEL", "static", "bfloat16", "/m/other.gguf", "a=CPU",
)  # fmt: skip
COMMANDS = {
    "llama.cpp": "llama-server -m /m/a.gguf -c 16384 -ngl 10 -t 4 -np 4 -ctk q4_0 -md /m/d.gguf --no-mmap",
    "vLLM": "vllm serve org/a --max-model-len 16384 --enforce-eager --tensor-parallel-size 2",
    "SGLang": "python3 -m sglang.launch_server --model-path org/a --tp-size 2 --disable-cuda-graph",
    "TGI": "text-generation-launcher --model-id org/a --num-shard 2 --cuda-graphs 0",
    "KoboldCpp": "koboldcpp --model /m/a.gguf --gpulayers 10 --lowvram --threads 4",
    "MLX-LM": "mlx_lm.server --model org/a --decode-concurrency 32 --draft-model org/d",
}
"""What starts each server that is told its settings on a command line."""
MODEL = Model(name=reported_fact("org/a", "x"), path=reported_fact("/m/a.gguf", "x"), layers=reported_fact(32, "x"))
PLACES = {
    "in a shell": {},
    "in a service": {"unit": reported_fact("server.service", "x")},
    "in compose": {"container": reported_fact("docker compose", "x")},
    "unseen": {"command": NOT_LOOKED},
    "with variables": {"environment": reported_fact({"LLAMA_ARG_THREADS": "8", "CUDA_VISIBLE_DEVICES": "-1"}, "x")},
}


def running(name: str, place: str) -> Case:
    command = COMMANDS.get(name)
    facts = {"command": reported_fact(command.split(), "x") if command else NOT_LOOKED, "slots": reported_fact(4, "x")}
    return Case(runtime=Runtime().with_facts(name=reported_fact(name, "x"), **{**facts, **PLACES[place]}), model=MODEL)


@cache
def every_change(name: str) -> list[Change]:
    """Every knob with every value, and of values that a runtime has the same line for, one."""
    case = running(name, "in a shell")
    told: dict[tuple[object, ...], Change] = {}
    for change in [knob.to(value) for knob in Knob for value in VALUES]:
        commands = commands_for([change], CaseView(case))
        told.setdefault((change.knob, commands.lines, bool(commands.left_out)), change)
    return list(told.values())


def diagnosed(changes: list[Change], case: Case) -> list[tuple[str, ...] | None]:
    """The lines of a diagnosis that has these fixes; None for those that stand above already."""
    fixes = (Fix(knob=change.knob.value, value=change.value, why="") for change in changes)
    whole = Finding(cause="x", title="", confidence=1.0, because="", evidence=())
    findings = tuple(msgspec.structs.replace(whole, fixes=(fix,)) for fix in fixes)
    told = subject_with_fix_commands(
        msgspec.structs.replace(judge(CaseView(case), brief=True), findings=findings), CaseView(case)
    ).findings
    return [None if f.fixes[0].why else f.fixes[0].commands for f in told]


def option(changes: list[Change]) -> OptionShown:
    shown = tuple(ChangeShown(knob=change.knob.value, value=change.value) for change in changes)
    quality = QualityShown(perplexity_increase=None)
    return OptionShown(name="x", quant="x", context=1, changes=shown, settings=shown, speed=None, quality=quality)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_diagnose_plan_and_edit_print_the_same_commands(looker, place):
    case, changes = running(looker.NAME, place), every_change(looker.NAME)
    told, plan = diagnosed(changes, case), Speller(case.runtime, case.model, fresh=False)
    for change, lines in zip(changes, told, strict=True):
        commands = commands_for([change], CaseView(case))
        assert lines in (None, (*commands.short, *commands.lines)), change
        if plan.has_line and not (change.knob is Knob.MODEL_FILE and "." not in str(change.value)):
            assert plan.commands(option([change])).lines == commands.lines, change
        changed = commands.argv != tuple(case.runtime.process.command.value_or([])) or commands.environment
        if looker.NAME in COMMANDS and commands.argv and changed and place in ("in a shell", "with variables"):
            assert shell_line(commands.argv, commands.environment) in commands.lines, change
        if looker.NAME in COMMANDS and place != "unseen" and not commands.lines:
            assert commands.left_out or not changed, change
        assert all(shlex.split(line.text) for line in map(parse_line, commands.lines) if line.place is Place.SHELL)


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_apply_prints_the_commands_of_a_diagnosis(looker, monkeypatch):
    case = running(looker.NAME, "in a shell")
    monkeypatch.setattr(prepare, "running_server", lambda *_: Subject(runtime=case.runtime, model=case.model))
    goal = GoalShown(aim="speed", context=1, prompt_tokens=1, kept_tokens=0, answer_tokens=1, users=1)
    plan = PlanReport(unslow_version="x", model="a", runtime=looker.NAME, machine="x", of_running=True, goal=goal,
                      verdict="better", recommended=0)  # fmt: skip
    for change in every_change(looker.NAME):
        if change.knob is Knob.MODEL_FILE:  # which is not there
            continue
        report = prepare.prepare_change(
            LiveSystem(), msgspec.structs.replace(plan, options=(option([change]),)), ApplyRequest()
        ).report
        assert report.lines == commands_for([change], CaseView(case)).lines, change


def test_tune_starts_servers_with_the_command_of_a_plan():
    model = Model(path=reported_fact("/m/a.gguf", "given"))
    plan, started = Speller(Runtime(), model, fresh=True, name="llama_cpp"), 0
    for change in every_change("llama.cpp"):
        candidate = Candidate("x", "neighbour", option([change]).settings)
        line = tuned_line(LiveSystem(), candidate, "/m/a.gguf", "llama-server")
        commands = plan.commands(option([change]))
        if line.why_not or commands is None or not commands.argv:
            continue
        assert shell_line(line.words, {}) in commands.lines, change
        started += 1
    assert started > 100


@pytest.mark.parametrize(
    ("asked", "module"),
    [
        ({}, gguf),
        ({"context": 4096, "parallel": 2, "kv_type": "q8_0", "ubatch": 1024, "batch": 4096}, gguf),
        ({"gpu_layers": 12, "n_cpu_moe": 3, "kv_offload": False, "op_offload": False}, gguf),
        ({"swa_full": True, "flash_attention": "on", "kv_unified": False, "parallel": 3}, gguf),
        ({"kv_type": "q8_0", "kv_type_v": "q4_0", "kv_unified": True, "parallel": 2}, gguf),
        ({"flash_attention": "off", "devices": ("RTX 4090", "RTX 3090"), "tensor_split": (3.0, 1.0)}, gguf),
        ({"override_tensor": ("ffn_up=CPU",)}, gguf),
        ({"runtime": "ollama", "context": 4096, "parallel": 2, "gpu_layers": 12}, gguf),
        (
            {"runtime": "vllm", "context": 4096, "parallel": 64, "batch": 4096, "gpu_memory_utilization": 0.95},
            safetensors,
        ),
    ],
)
def test_fit_prints_the_command_of_a_plan(asked, module, monkeypatch):
    seen = []

    def noted(changes, case, **named):
        commands = commands_for(changes, case, **named)
        seen.append((list(changes), case, named["name"], commands.lines))
        return commands

    monkeypatch.setattr(module, "commands_for", noted)
    fit(LiveSystem(), FitRequest(model="llama-3.1-8b", **{"devices": ("RTX 4090",), **asked}))
    assert seen
    for changes, case, name, lines in seen:
        model = case.model if case.model.path.value != "MODEL.gguf" or name != "ollama" else Model()
        plan = Speller(Runtime(), model, fresh=True, name=name)
        wanted = option([change for change in changes if change.knob is not Knob.MODEL_FILE])
        shown = tuple(msgspec.structs.replace(change, was="x") for change in wanted.settings)
        assert plan.commands(msgspec.structs.replace(wanted, settings=shown)).lines == lines


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_page_sliders_change_the_command_like_a_diagnosis(looker, place):
    now = AskedSettings(context=16384, gpu_layers=10, kv_type="f16", quant="Q4_K_M", slots=4)
    moved: dict[str, list[Change]] = {
        "gpu_layers": [Knob.GPU_LAYERS.to(20)],
        "context": [Knob.CONTEXT_LENGTH.to(32768)],
        "slots": [Knob.CONTEXT_LENGTH.to(16384), Knob.PARALLEL.to(2)],
        "kv_type": [Knob.KV_CACHE_TYPE.to("q8_0"), Knob.FLASH_ATTENTION.to(value=True)],
    }
    case = running(looker.NAME, place)
    for slider, changes in moved.items():
        value = {"kv_type": "q8_0", "slots": 2}.get(slider, changes[0].value)
        settings = Settings(context=32768 if slider == "context" else 16384)
        kind = "Q8_0" if slider == "kv_type" else "F16"
        settings = settings._replace(key_type=kind, value_type=kind, gpu_layers=20 if slider == "gpu_layers" else -1)
        line = page_line(CaseView(case), now, now._replace(**{slider: value}), settings)
        assert line == "\n".join(commands_for(changes, CaseView(case)).lines), slider
        if len(changes) == 1:
            (lines,) = diagnosed(changes, case)
            assert lines is None or line in ("\n".join(lines[-n:]) for n in range(len(lines) + 1)), slider
