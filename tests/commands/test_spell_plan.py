import pytest
from doubles import FakeSystem

from unslow.commands._command_lines import commands_for
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact
from unslow.look.system import FinishedCommand
from unslow.think.case.view import CaseView

COMMAND = ["/usr/bin/llama-server", "-m", "/m/a.gguf"]
LLAMA = Runtime().with_facts(
    name=reported_fact("llama.cpp", "x"), command=reported_fact(COMMAND, "x"), version=reported_fact("b10500", "x")
)
RUNNING = Runtime().with_facts(
    name=reported_fact("llama.cpp", "x"),
    command=reported_fact(COMMAND, "x"),
    version=reported_fact("b10500", "x"),
    pid=reported_fact(7, "x"),
)
FLAGS = ["-m", "-t", "-ngl", "-sm {none,layer,row}", *(f"--other-{number}" for number in range(60))]
HELP = "\n".join(f"{flag}    said" for flag in FLAGS)
PROCESS = {
    "/proc/7/comm": "llama-server", "/proc/7/status": "PPid:\t1\n", "/proc/1/comm": "systemd",
    "/proc/7/cgroup": "0::/system.slice/llama.service\n",
}  # fmt: skip
MODEL = Model(path=reported_fact("/m/a.gguf", "x"), name=reported_fact("a", "x"))


def system(**files) -> FakeSystem:
    return FakeSystem(
        files={**PROCESS, **files},
        links={"/proc/7/exe": "/usr/bin/llama-server"},
        commands={f"{program}/llama-server --help": FinishedCommand(0, HELP, "") for program in ("/usr/bin", "/opt")},
    )


def test_snapshot_facts_alone_decide_the_command():
    spelled = commands_for([Knob.THREADS.to(4), Knob.LOAD_MODE.to("none")], CaseView(Case(runtime=LLAMA, model=MODEL)))
    assert spelled.lines == ("/usr/bin/llama-server -m /m/a.gguf -t 4 -lm none",)
    limit = reported_fact(9, "/sys/fs/cgroup/system.slice/llama.service/memory.max")
    of_unit = Runtime().with_facts(name=LLAMA.name, command=LLAMA.process.command, memory_limit_bytes=limit)
    lines = commands_for([Knob.THREADS.to(4)], CaseView(Case(runtime=of_unit, model=MODEL))).lines
    assert lines[-1] == "sudo systemctl daemon-reload && sudo systemctl restart llama"


def test_live_program_is_queried_for_its_flags_and_service(wording):
    spelled = commands_for(
        [Knob.THREADS.to(4), Knob.LOAD_MODE.to("none"), Knob.SPLIT_MODE.to("tensor")],
        CaseView(Case(runtime=RUNNING, model=MODEL)),
        system=system(),
    )
    assert spelled.lines[-1] == "sudo systemctl daemon-reload && sudo systemctl restart llama"
    assert spelled.argv == (*COMMAND, "-t", "4")
    whys = {change.knob: why for change, why in spelled.left_out}
    assert set(whys) == {Knob.SPLIT_MODE, Knob.LOAD_MODE}
    wording(whys[Knob.SPLIT_MODE], tells="-sm tensor")
    wording(whys[Knob.LOAD_MODE], tells="--no-mmap")


def test_missing_model_file_is_left_out(wording):
    change = Knob.MODEL_FILE.to("/m/b.gguf")
    ((gone, why),) = commands_for([change], CaseView(Case(runtime=RUNNING, model=MODEL)), system=system()).left_out
    assert gone == change
    wording(why, tells="/m/b.gguf")
    there = commands_for(
        [change], CaseView(Case(runtime=RUNNING, model=MODEL)), system=system(**{"/m/b.gguf": b"GGUF"})
    )
    assert there.argv == ("/usr/bin/llama-server", "-m", "/m/b.gguf")
    assert commands_for([change], CaseView(Case(runtime=LLAMA, model=MODEL))).argv == (
        "/usr/bin/llama-server",
        "-m",
        "/m/b.gguf",
    )


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("llama_cpp", "llama-server -m /m/a.gguf"),
        ("llama.cpp", "llama-server -m /m/a.gguf"),
        ("ollama", "sudo mkdir -p /etc/systemd/system/ollama.service.d"),
        ("vllm", "vllm serve /m/a.gguf --max-num-seqs 2"),
        ("lm_studio", "lms load a --parallel 2"),
        ("LM Studio", "lms load a --parallel 2"),
    ],
)
def test_named_runtime_is_used_where_nothing_runs(name, start):
    assert commands_for([Knob.PARALLEL.to(2)], CaseView(Case(model=MODEL)), name=name).lines[0].startswith(start)


def test_named_program_is_queried_for_its_flags(wording):
    changes = [Knob.THREADS.to(2), Knob.CONTEXT_LENGTH.to(4096)]
    spelled = commands_for(
        changes, CaseView(Case(model=MODEL)), system=system(), program="/opt/llama-server", name="llama_cpp"
    )
    assert spelled.argv == ("/opt/llama-server", "-m", "/m/a.gguf", "-t", "2")
    ((left, why),) = spelled.left_out
    assert left == changes[1]
    wording(why, tells="-c")


def test_transformers_gets_code_and_mlx_gets_fragments():
    assert (
        "in Python: import torch"
        in commands_for([Knob.THREADS.to(2)], CaseView(Case(model=MODEL)), name="transformers").lines[0]
    )
    mlx = commands_for(
        [Knob.SPECULATIVE.to("/m/d"), Knob.NUMA.to("isolate")], CaseView(Case(model=MODEL)), name="mlx_lm"
    )
    assert [change.knob for change, _ in mlx.left_out][-1] is Knob.NUMA


def test_unknown_runtime_is_a_user_error(wording):
    with pytest.raises(UserError) as caught:
        commands_for([], CaseView(Case(model=MODEL)), name="llamafile")
    wording(str(caught.value))
    with pytest.raises(UserError, match="runtime of the plan is unknown"):
        commands_for([Knob.THREADS.to(2)], CaseView(Case(model=MODEL)))


def test_windows_runtime_gets_powershell():
    here = Runtime().with_facts(
        name=LLAMA.name, command=LLAMA.process.command, version=LLAMA.version, system=reported_fact("Windows 11", "x")
    )
    spelled = commands_for([Knob.GRAPHS.to(False), Knob.DEVICE.to("CUDA0")], CaseView(Case(runtime=here, model=MODEL)))
    assert spelled.lines == (
        "in PowerShell: $env:GGML_CUDA_DISABLE_GRAPHS = '1'; /usr/bin/llama-server -m /m/a.gguf -dev CUDA0",
    )
