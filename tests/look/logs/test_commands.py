from itertools import combinations

from unslow.facts.values import GIB, Absence, Known, Origin
from unslow.look.logs.commands import parse_commands, parse_commands_text
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.runtimes import command_lines


def llama(text: str) -> LogFacts:
    return parse_commands(command_lines()["llama_cpp"], Text(text.split("\n"), "post"))


def general(text: str) -> LogFacts:
    return parse_commands_text(Text(text.split("\n"), "post"))


def test_a_command_with_continued_lines_gives_settings_with_their_line():
    told = llama("I run\n$ ./llama-server -m models/qwen.gguf \\\n   -ngl 20 -c 8192 \\\n   -fa on\nand it is slow")
    runtime = told.subject.runtime
    assert runtime.placement.gpu_layers_set == Known(20, Origin.REPORTED, "post:2")
    assert (runtime.context.requested.need(), runtime.compute.flash_attention.need()) == (8192, True)
    assert (told.subject.model.path.need(), told.subject.model.name.need()) == ("models/qwen.gguf", "qwen")
    assert told.lines == 3


def test_llama_cpp_programs_are_recognised_under_every_name():
    for command in (
        "llama-cli -ngl 5",
        "./main -ngl 5 -p hello",
        "C:\\llama\\llama-server.exe -ngl 5",
        "build/bin/server -ngl 5",
        "docker run --gpus all -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server-cuda -m x.gguf -ngl 5",
        "`llama-server -ngl 5`, nothing else",
        "run: llama-server -ngl=5 | tee log",
        'msg="starting llama-server" cmd="/usr/lib/ollama/llama-server --model /x/blobs/sha256-1 -ngl 5"',
    ):
        assert llama(command).subject.runtime.placement.gpu_layers_set.need() == 5, command


def test_flags_without_a_program_count_if_they_are_unique_to_llama_cpp():
    runtime = llama("it happens with -fa on and --cache-type-k q5_1 --cache-type-v q5_1.").subject.runtime
    assert (runtime.compute.flash_attention.need(), runtime.cache.type_k.need(), runtime.cache.type_v.need()) == (
        True,
        "q5_1",
        "q5_1",
    )
    assert llama("started with --model x --port 80 --threads 5") == LogFacts()
    assert llama("ps -m and ls -c") == LogFacts()


def test_flags_in_negations_questions_and_advice_are_ignored():
    for words in (
        "it is fine without -ngl 99",
        "I removed --no-mmap",
        "have you tried --flash-attn on?",
        "you should set -ngl 99",
        "llama-server without -ngl 99 is fine",
    ):
        assert llama(words) == LogFacts(), words


def test_llama_arg_variables_are_settings():
    runtime = llama('Environment="LLAMA_ARG_N_GPU_LAYERS=12"\n  LLAMA_ARG_CTX_SIZE: 4096').subject.runtime
    assert runtime.placement.gpu_layers_set == Known(12, Origin.REPORTED, "post:1")
    assert runtime.context.requested == Known(4096, Origin.REPORTED, "post:2")
    assert runtime.process.environment.need() == {"LLAMA_ARG_N_GPU_LAYERS": "12", "LLAMA_ARG_CTX_SIZE": "4096"}


def test_a_later_command_overrides_an_earlier_one_flag_by_flag():
    runtime = llama("llama-server -ngl 20 -c 4096\nllama-server -ngl 99").subject.runtime
    assert (runtime.placement.gpu_layers_set.need(), runtime.context.requested.need()) == (99, 4096)


def test_keys_in_pasted_commands_are_masked():
    told = llama("llama-server -ngl 5 --api-key sk-abcdefgh12345 -hft hf_abcdefgh12345")
    assert "abcdefgh" not in str(told)


def test_flags_that_are_not_in_the_command_are_not_looked():
    runtime = llama("llama-server -ngl 5").subject.runtime
    assert runtime.context.requested.absence is Absence.NOT_LOOKED


def test_docker_run_limits_are_parsed():
    told = general("docker run --cpus 2 --cpuset-cpus=0-3 --memory 8g -e CUDA_VISIBLE_DEVICES=1 image")
    assert told.subject.runtime.process.container.need() == "docker"
    assert told.machine.cpu.quota_cpus == Known(2.0, Origin.REPORTED, "post:1")
    assert told.machine.cpu.allowed_cpus.need() == 4
    assert told.machine.memory.limit_bytes.need() == 8 * GIB
    assert told.subject.runtime.process.environment.need() == {"CUDA_VISIBLE_DEVICES": "1"}


def test_standalone_flags_belong_to_one_runtime_only():
    for one, other in combinations(command_lines().values(), 2):
        assert not one.flags & other.flags


def test_windows_variable_assignments_are_parsed():
    text = '$env:CUDA_VISIBLE_DEVICES = "0"\nsetx HSA_OVERRIDE_GFX_VERSION 10.3.0\nset OMP_NUM_THREADS=4'
    assert general(text).subject.runtime.process.environment.need() == {
        "CUDA_VISIBLE_DEVICES": "0",
        "HSA_OVERRIDE_GFX_VERSION": "10.3.0",
        "OMP_NUM_THREADS": "4",
    }


def test_hostile_command_lines_are_bounded():
    for text in ("llama-server " + "-ngl " * 100_000, "llama-server -m 'never ends", "\\\n" * 10_000, "-" * 100_000):
        assert isinstance(llama(text), LogFacts)
        assert isinstance(general(text), LogFacts)


def test_an_image_under_services_means_docker_compose():
    lines = ("services:", "  ollama:", "    image: ollama/ollama:0.5.7", '    ports: ["11434:11434"]')
    container = general("\n".join(lines)).subject.runtime.process.container
    assert isinstance(container, Known)
    assert (container.value, container.source) == ("docker compose", "post:3")
    assert general("    image: ollama/ollama") == LogFacts()
