import pytest
from doubles import FakeSystem

from unslow.commands._command_lines import commands_for
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported
from unslow.look.system import Finished

COMMAND = ["/usr/bin/llama-server", "-m", "/m/a.gguf"]
LLAMA = Runtime(name=reported("llama.cpp", "x"), command=reported(COMMAND, "x"), version=reported("b10500", "x"))
RUNNING = Runtime(
    name=reported("llama.cpp", "x"),
    command=reported(COMMAND, "x"),
    version=reported("b10500", "x"),
    pid=reported(7, "x"),
)
FLAGS = ["-m", "-t", "-ngl", "-sm {none,layer,row}", *(f"--other-{number}" for number in range(60))]
HELP = "\n".join(f"{flag}    said" for flag in FLAGS)
PROCESS = {
    "/proc/7/comm": "llama-server", "/proc/7/status": "PPid:\t1\n", "/proc/1/comm": "systemd",
    "/proc/7/cgroup": "0::/system.slice/llama.service\n",
}  # fmt: skip
MODEL = Model(path=reported("/m/a.gguf", "x"), name=reported("a", "x"))


def system(**files) -> FakeSystem:
    return FakeSystem(
        files={**PROCESS, **files},
        links={"/proc/7/exe": "/usr/bin/llama-server"},
        commands={
            f"{program} --help": Finished(0, HELP, "") for program in ("/usr/bin/llama-server", "/opt/llama-server")
        },
    )


def test_from_a_snapshot_the_facts_alone_decide():
    spelled = commands_for([Knob.THREADS.to(4), Knob.LOAD_MODE.to("none")], Case(runtime=LLAMA, model=MODEL))
    assert spelled.lines == ("/usr/bin/llama-server -m /m/a.gguf -t 4 -lm none",)
    limit = reported(9, "/sys/fs/cgroup/system.slice/llama.service/memory.max")
    of_unit = Runtime(name=LLAMA.name, command=LLAMA.command, memory_limit_bytes=limit)
    lines = commands_for([Knob.THREADS.to(4)], Case(runtime=of_unit, model=MODEL)).lines
    assert lines[-1] == "sudo systemctl daemon-reload && sudo systemctl restart llama"


def test_a_live_program_is_asked_and_its_service_found(wording):
    spelled = commands_for(
        [Knob.THREADS.to(4), Knob.LOAD_MODE.to("none"), Knob.SPLIT_MODE.to("tensor")],
        Case(runtime=RUNNING, model=MODEL),
        system=system(),
    )
    assert spelled.lines[-1] == "sudo systemctl daemon-reload && sudo systemctl restart llama"
    assert spelled.argv == (*COMMAND, "-t", "4")
    whys = {change.knob: why for change, why in spelled.left_out}
    assert set(whys) == {Knob.SPLIT_MODE, Knob.LOAD_MODE}
    wording(whys[Knob.SPLIT_MODE], tells="-sm tensor")
    wording(whys[Knob.LOAD_MODE], tells="--no-mmap")


def test_a_file_that_is_gone_is_not_named(wording):
    change = Knob.MODEL_FILE.to("/m/b.gguf")
    ((gone, why),) = commands_for([change], Case(runtime=RUNNING, model=MODEL), system=system()).left_out
    assert gone == change
    wording(why, tells="/m/b.gguf")
    there = commands_for([change], Case(runtime=RUNNING, model=MODEL), system=system(**{"/m/b.gguf": b"GGUF"}))
    assert there.argv == ("/usr/bin/llama-server", "-m", "/m/b.gguf")
    assert commands_for([change], Case(runtime=LLAMA, model=MODEL)).argv == ("/usr/bin/llama-server", "-m", "/m/b.gguf")


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
def test_where_nothing_runs_the_runtime_is_named(name, start):
    assert commands_for([Knob.PARALLEL.to(2)], Case(model=MODEL), name=name).lines[0].startswith(start)


def test_a_program_that_the_user_names_is_asked_too(wording):
    changes = [Knob.THREADS.to(2), Knob.CONTEXT_LENGTH.to(4096)]
    spelled = commands_for(changes, Case(model=MODEL), system=system(), program="/opt/llama-server", name="llama_cpp")
    assert spelled.argv == ("/opt/llama-server", "-m", "/m/a.gguf", "-t", "2")
    ((left, why),) = spelled.left_out
    assert left == changes[1]
    wording(why, tells="-c")


def test_code_for_transformers_and_fragments_for_what_spells_no_whole():
    assert (
        "in Python: import torch" in commands_for([Knob.THREADS.to(2)], Case(model=MODEL), name="transformers").lines[0]
    )
    mlx = commands_for([Knob.SPECULATIVE.to("/m/d"), Knob.NUMA.to("isolate")], Case(model=MODEL), name="mlx_lm")
    assert [change.knob for change, _ in mlx.left_out][-1] is Knob.NUMA


def test_what_nobody_knows_is_the_users_to_say(wording):
    with pytest.raises(UserError) as caught:
        commands_for([], Case(model=MODEL), name="llamafile")
    wording(str(caught.value))
    with pytest.raises(UserError, match="which runtime"):
        commands_for([Knob.THREADS.to(2)], Case(model=MODEL))


def test_windows_reads_its_own_lines():
    here = Runtime(name=LLAMA.name, command=LLAMA.command, version=LLAMA.version, system=reported("Windows 11", "x"))
    spelled = commands_for([Knob.GRAPHS.to(False), Knob.DEVICE.to("CUDA0")], Case(runtime=here, model=MODEL))
    assert spelled.lines == (
        "in PowerShell: $env:GGML_CUDA_DISABLE_GRAPHS = '1'; /usr/bin/llama-server -m /m/a.gguf -dev CUDA0",
    )
