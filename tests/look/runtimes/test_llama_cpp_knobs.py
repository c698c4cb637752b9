import pytest

from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported
from unslow.look.runtimes.llama_cpp import changed_command, spell

COMMAND = ["llama-server", "-m", "m.gguf", "-ngl", "20", "-c", "8192"]


def runtime(command: list[str], environment: dict[str, str] | None = None) -> Runtime:
    return Runtime(command=reported(command, "x"), environment=reported(environment or {}, "x"))


@pytest.mark.parametrize(
    ("change", "fragment", "line"),
    [
        (Knob.GPU_LAYERS.to(None), "remove -ngl 20", "llama-server -m m.gguf -c 8192"),
        (Knob.GPU_LAYERS.to(33), "-ngl 33", "llama-server -m m.gguf -c 8192 -ngl 33"),
        (Knob.CONTEXT_LENGTH.to(4096), "-c 4096", "llama-server -m m.gguf -ngl 20 -c 4096"),
        (
            Knob.KV_CACHE_TYPE.to("q8_0"),
            "-ctk q8_0 -ctv q8_0",
            "llama-server -m m.gguf -ngl 20 -c 8192 -ctk q8_0 -ctv q8_0",
        ),
        (Knob.THREADS.to(8), "-t 8", "llama-server -m m.gguf -ngl 20 -c 8192 -t 8"),
        (Knob.THREADS.to(None), "remove -t", "llama-server -m m.gguf -ngl 20 -c 8192"),
        (Knob.FIT.to(True), "remove -ngl 20 -c 8192", "llama-server -m m.gguf"),
    ],
)
def test_fragment_and_whole_line(change, fragment, line):
    assert spell(change, runtime(COMMAND)) == [fragment, line]


def test_every_spelling_of_a_flag_is_replaced():
    command = ["llama-server", "--n-gpu-layers=5", "-fit", "off", "--gpu-layers", "20", "-m", "a b.gguf"]
    assert changed_command(command, Knob.GPU_LAYERS.to(None)) == ["llama-server", "-fit", "off", "-m", "a b.gguf"]
    assert changed_command(command, Knob.FIT.to(None)) == ["llama-server", "-m", "a b.gguf"]


def test_words_with_spaces_are_quoted():
    assert (
        spell(Knob.THREADS.to(4), runtime(["llama-server", "-m", "a b.gguf"]))[1] == "llama-server -m 'a b.gguf' -t 4"
    )


def test_a_variable_that_would_set_the_knob_again_is_taken_away():
    lines = spell(Knob.GPU_LAYERS.to(None), runtime(["llama-server"], {"LLAMA_ARG_N_GPU_LAYERS": "20"}))
    assert lines[1] == "env -u LLAMA_ARG_N_GPU_LAYERS llama-server"


def test_keys_are_not_shown():
    lines = spell(Knob.THREADS.to(4), runtime(["llama-server", "--api-key", "hush", "--hf-token=hush", "-c", "1"]))
    assert "hush" not in lines[1]
    assert lines[1] == "llama-server --api-key KEY --hf-token=KEY -c 1 -t 4"


@pytest.mark.parametrize("knob", list(Knob))
def test_every_knob_is_spelled_without_a_known_command(knob):
    assert all(isinstance(line, str) for line in spell(knob.to(4), Runtime()))


def test_experts_are_moved_back_by_taking_every_override_away():
    command = ["llama-server", "-cmoe", "-ot", "exps=CPU", "-m", "m.gguf"]
    assert spell(Knob.EXPERTS_ON_CPU.to(None), runtime(command))[1] == "llama-server -m m.gguf"
    assert spell(Knob.EXPERTS_ON_CPU.to(5), runtime(command))[1] == "llama-server -m m.gguf -ncmoe 5"


def test_knobs_outside_the_command_line():
    assert spell(Knob.QUANT.to("Q3_K_M"), runtime(COMMAND)) == ["-m FILE, where FILE is this model as Q3_K_M"]
    assert spell(Knob.QUANT.to(None), runtime(COMMAND)) == ["-m FILE, where FILE is this model as a smaller quant"]
    assert spell(Knob.OTHER_LOAD.to(77), runtime(COMMAND)) == ["renice -n 19 -p 77"]
    assert spell(Knob.OTHER_PROCESS.to(None), runtime(COMMAND)) == [" ".join(COMMAND)]
    assert (
        spell(Knob.GPU_BACKEND.to("CUDA"), runtime(COMMAND))[0] == "install a llama.cpp build for CUDA and its driver"
    )
