from pathlib import Path

import pytest

from unslow.facts.run import Run
from unslow.facts.values import GIB, Known
from unslow.look.logs.llama_cpp import parse_log
from unslow.look.paste import PastedFacts, line_dialects, read_paste, text_dialects

MACHINES = Path(__file__).parents[1] / "machines"
LOGS = sorted(
    log for log in MACHINES.glob("*/server.log") if not log.parent.name.startswith(("lab_vllm", "lab_ollama", "vllm_"))
)
"""Of llama-server."""


def pasted(text: str) -> PastedFacts:
    return read_paste([text.encode()], "post")


REPORT = """\
Hi, my llama-server is slow on a 3090, about 7 tok/s.

$ nvidia-smi
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0  On |                  N/A |
|  0%   45C    P8             25W /  350W |     512MiB /  24576MiB |      3%      Default |
+-----------------------------------------+------------------------+----------------------+
and the memory:
               total        used        free      shared  buff/cache   available
Mem:            62Gi       8.0Gi        20Gi       1.0Gi        34Gi        53Gi
Swap:          2.0Gi          0B       2.0Gi

./llama-server -m model.gguf -c 8192
Nov 15 11:36:55 box llama[812]: ggml_cuda_init: found 1 CUDA devices:
Nov 15 11:36:55 box llama[812]:   Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes
Nov 15 11:36:55 box llama[812]: \x1b[32mload_tensors: offloaded 20/33 layers to GPU\x1b[0m
Thanks for any help!
"""


def test_a_mixed_report_is_parsed_with_line_numbers():
    told = pasted(REPORT)
    [subject] = told.subjects
    assert subject.runtime.name.need() == "llama.cpp"
    assert (subject.runtime.placement.gpu_layers.need(), subject.runtime.placement.gpu_layers.source) == (20, "post:21")
    assert (subject.runtime.context.requested.need(), subject.runtime.context.requested.source) == (8192, "post:18")
    assert subject.model.name.need() == "model"
    assert told.machine.memory.total_bytes.need() == 62 * GIB
    assert told.machine.memory.total_bytes.source == "post:14"
    assert (told.lines, told.bytes) == (REPORT.count("\n"), len(REPORT.encode()))


def test_a_gpu_described_by_three_tools_is_one():
    [gpu] = pasted(REPORT + "index, name, memory.used [MiB]\n0, NVIDIA GeForce RTX 3090, 600 MiB\n").machine.gpus.need()
    assert gpu.name.need() == "NVIDIA GeForce RTX 3090"
    assert gpu.compute_capability.need() == "8.6"
    assert gpu.vram_total_bytes.need() == 24 * GIB
    assert gpu.vram_total_bytes.source == "post:5"


def test_the_remaining_lines_are_prose_with_their_numbers():
    prose = pasted(REPORT).prose
    words = {prose.where(index): line for index, line in enumerate(prose.lines) if line}
    assert words["post:1"].startswith("Hi, my llama-server")
    assert words["post:22"] == "Thanks for any help!"
    assert not any("|" in line or "Mem:" in line or "offloaded" in line for line in words.values())


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_a_recorded_log_parses_alike_as_lines_and_as_a_stream(path: Path):
    data = path.read_bytes()
    whole = parse_log(data.decode().split("\n"), "server.log")
    told = read_paste((data[at : at + 700] for at in range(0, len(data), 700)), "server.log")
    [subject] = told.subjects
    assert subject.runtime == whole.runtime
    assert subject.model == whole.model
    assert subject.run.completions == whole.run.completions
    assert told.lines == data.count(b"\n") + (not data.endswith(b"\n"))


def test_a_utf_16_paste_is_parsed():
    [subject] = read_paste([REPORT.replace("\n", "\r\n").encode("utf-16")], "post").subjects
    assert (subject.runtime.placement.gpu_layers.need(), subject.runtime.placement.gpu_layers.source) == (20, "post:21")


def test_llama_cpp_lines_in_another_programs_log_belong_to_it():
    text = (
        " [LM Studio] GPU Configuration:\nbuild: 6000 (abc1234) with cc\nload_tensors: offloaded 20/33 layers to GPU\n"
    )
    [subject] = pasted(text).subjects
    assert subject.runtime.name.need() == "LM Studio"
    assert subject.runtime.placement.gpu_layers.need() == 20
    assert not isinstance(subject.runtime.version, Known)


def test_the_outcome_wins_over_the_request_and_both_are_kept():
    text = (
        "llama-server -ngl 99 -fa on\n"
        "load_tensors: offloaded 20/33 layers to GPU\n"
        "resolve_fused_ops: Flash Attention not supported, set to disabled\n"
    )
    [subject] = pasted(text).subjects
    assert subject.runtime.compute.flash_attention.need() is False
    assert (subject.runtime.placement.gpu_layers_set.need(), subject.runtime.placement.gpu_layers.need()) == (99, 20)
    assert {c.about for c in subject.contradictions} == {"flash_attention", "gpu_layers"}
    assert subject.contradictions[0].statements[0].source == "post:1"


def test_a_text_without_a_log_has_no_subject():
    told = pasted("my computer is slow\nwhat can I do?\n")
    assert told.subjects == ()
    assert told.recognised == {}
    assert list(told.prose.lines) == ["my computer is slow", "what can I do?"]


def test_an_empty_paste_has_no_subject():
    told = read_paste([], "post")
    assert (told.bytes, told.lines, told.subjects, list(told.prose.lines)) == (0, 0, (), [])


def test_progress_is_reported_in_bytes():
    seen: list[int] = []
    read_paste([(b"hay " * 249 + b"end\n") * 1200], "post", seen.append)
    assert seen[-1] == 1_200_000
    assert seen == sorted(seen)


def test_a_speed_from_a_table_alone_is_used():
    text = "| model | size | backend | ngl | test | t/s |\n| llama 8B Q4_0 | 4 GiB | CUDA | 99 | tg128 | 50 |"
    [subject] = pasted(text).subjects
    assert subject.run == Run(
        decode_tokens_per_s=subject.run.decode_tokens_per_s, depth_tokens=subject.run.depth_tokens
    )
    assert subject.run.decode_tokens_per_s.need() == 50


def test_dialects_are_discovered_and_keep_their_contract():
    assert {"llama_cpp", "lm_studio"} <= line_dialects().keys()
    assert {"nvidia_smi", "free", "lscpu", "llama_bench", "llama_cpp command"} <= text_dialects().keys()
    for name, dialect in line_dialects().items():
        assert all(len(needle) >= 3 and "\n" not in needle for needle in dialect.needles), name
        assert dialect.chatty <= set(dialect.needles), name
        assert dialect.start().log_facts("empty").lines == 0, name
