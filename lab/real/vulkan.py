"""llama-server's Vulkan build on a machine whose only Vulkan device is a software renderer: the CPU posing as a GPU.

    python -m lab.faults --where vulkan --server FOLDER --models FOLDER --out FOLDER --rounds 1

FOLDER holds the llama-server of a Vulkan build with its libraries; lab/faults makes the models, and `smollm2.gguf` is
SmolLM2-135M-Instruct at Q4_1: newer servers answer random text with an error 500 at times. The renderer is Mesa's
llvmpipe (Debian: mesa-vulkan-drivers). By itself the build skips devices of the type CPU; GGML_VK_VISIBLE_DEVICES=0,
which guides and images set, selects it: 1 token per second where the CPU gives 100. Without layers on it, it still
reads the prompts, since llama.cpp computes large batches on a device of the list.
"""

import os
import statistics

from lab.faults.asked import USUAL, Asked
from lab.faults.asking import ask, tokens
from lab.faults.fault import Fault, Metric, Playing, Stage
from lab.faults.measuring import measured
from lab.faults.neighbours import busy_loops, clients
from lab.faults.running import Runtime

HERE = ("vulkan",)
CPUS = os.cpu_count() or 1
SHOWN = {"GGML_VK_VISIBLE_DEVICES": "0"}
PROMPT = 96  # a renderer reads six tokens of a prompt in a second
WRONG = "wrong_device_selected"
ON_CPU = Stage(("-dev", "none"), SHOWN)


def _measured(metric: Metric, playing: Playing, asked: Asked = USUAL) -> float | None:
    """As usual, with prompts short enough for a renderer."""
    if metric != "prefill" or playing.load_s is None:
        return measured(metric, playing, asked)
    url = playing.diagnose_url or playing.url
    answers = [ask(url, tokens(PROMPT), 2, cache_prompt=False) for _ in range(2)]
    return statistics.median(one.prompt_tokens / one.prompt_s for one in answers)


def _healthy(name: str, what: str, model: str, stage: Stage) -> Fault:
    return Fault(f"healthy_{name}", what, HERE, model, stage, verdict="normal")


FAULTS = (
    Fault(
        "all_layers",
        "llvmpipe is the only Vulkan device and takes all layers; the log does not name it",
        HERE,
        "smollm2",
        Stage((), SHOWN),
        WRONG,
        cure=ON_CPU,
    ),
    Fault(
        "all_layers_told_more",
        "llvmpipe is the only Vulkan device and takes all layers; -lv 4, so the log names it",
        HERE,
        "smollm2",
        Stage(("-lv", "4"), SHOWN),
        WRONG,
        cure=ON_CPU,
    ),
    Fault(
        "some_layers",
        "-ngl 10: a third of the layers is on llvmpipe",
        HERE,
        "smollm2",
        Stage(("-ngl", "10"), SHOWN),
        WRONG,
        cure=ON_CPU,
    ),
    Fault(
        "named_device",
        "-dev Vulkan0 -ngl 99, which is llvmpipe; a model of 10 layers at Q8_0",
        HERE,
        "draft",
        Stage(("-dev", "Vulkan0", "-ngl", "99", "-lv", "4"), SHOWN),
        WRONG,
        cure=ON_CPU,
    ),
    Fault(
        "prompts_alone",
        "-ngl 0: no layer is on llvmpipe, and the prompts are computed on it all the same",
        HERE,
        "smollm2",
        Stage(("-ngl", "0"), SHOWN),
        WRONG,
        cure=ON_CPU,
        metric="prefill",
    ),
    _healthy("device_none", "llvmpipe is there, and -dev none leaves it out", "smollm2", ON_CPU),
    _healthy("skipped", "llvmpipe is installed, and the build skips it by itself", "smollm2", Stage()),
    _healthy(
        "skipped_told_more", "the same with -lv 4, and a model of 1B", "llama_1b", Stage(("-c", "8192", "-lv", "4"))
    ),
    Fault(
        "one_layer",
        "-ngl 1: the output layer alone is on llvmpipe",
        HERE,
        "smollm2",
        Stage(("-ngl", "1", "-lv", "4"), SHOWN),
        WRONG,
        cure=ON_CPU,
        fresh=True,
    ),
    Fault(
        "attention_alone",
        "-cmoe: attention is on llvmpipe, the experts are on the CPU; the log does not tell",
        HERE,
        "experts",
        Stage(("-cmoe", "-c", "4096"), SHOWN),
        WRONG,
        cure=Stage(("-dev", "none", "-c", "4096"), SHOWN),
        fresh=True,
    ),
    Fault(
        "few_layers_1b",
        "-ngl 2 of a model of 1B; the log does not tell",
        HERE,
        "llama_1b",
        Stage(("-ngl", "2", "-c", "4096"), SHOWN),
        WRONG,
        cure=Stage(("-dev", "none", "-c", "4096"), SHOWN),
        fresh=True,
    ),
    Fault(
        "healthy_none_visible",
        "GGML_VK_VISIBLE_DEVICES is empty: the build has no device at all",
        HERE,
        "smollm2",
        Stage((), {"GGML_VK_VISIBLE_DEVICES": ""}),
        verdict="normal",
        fresh=True,
    ),
    # thought up after the causes were mended with the fresh ones above
    Fault(
        "layers_of_experts",
        "-ngl 4 of a model of experts; the log does not tell",
        HERE,
        "experts",
        Stage(("-ngl", "4", "-c", "4096"), SHOWN),
        WRONG,
        cure=Stage(("-dev", "none", "-c", "4096"), SHOWN),
        fresh=True,
    ),
    Fault(
        "without_a_log",
        "all layers on llvmpipe, and a server whose log is switched off",
        HERE,
        "smollm2",
        Stage(("--log-disable",), SHOWN),
        WRONG,
        cure=ON_CPU,
        fresh=True,
    ),
    Fault(
        "healthy_experts",
        "-dev none and a model of experts",
        HERE,
        "experts",
        Stage(("-dev", "none", "-c", "4096"), SHOWN),
        verdict="normal",
        fresh=True,
    ),
    # the third round: thought up by someone who had not seen the causes' code
    Fault(
        "device_by_environment",
        "LLAMA_ARG_DEVICE=Vulkan0 and LLAMA_ARG_N_GPU_LAYERS=99; a model of 10 layers at Q8_0; the log does not tell",
        HERE,
        "draft",
        Stage((), {**SHOWN, "LLAMA_ARG_DEVICE": "Vulkan0", "LLAMA_ARG_N_GPU_LAYERS": "99"}),
        WRONG,
        cure=ON_CPU,
        fresh=True,
    ),
    Fault(
        "half_of_the_experts",
        "-ncmoe 8: all attention and the experts of eight layers are on llvmpipe; the log does not tell",
        HERE,
        "experts",
        Stage(("-ncmoe", "8", "-c", "4096"), SHOWN),
        WRONG,
        cure=Stage(("-dev", "none", "-c", "4096"), SHOWN),
        fresh=True,
    ),
    Fault(
        "skipped_and_one_thread",
        f"the build skips llvmpipe by itself, and -t 1 on {CPUS} cores; a model of 1B",
        HERE,
        "llama_1b",
        Stage(("-t", "1", "-c", "4096")),
        "threads_too_few",
        cure=Stage(("-c", "4096")),
        fresh=True,
    ),
    Fault(
        "left_out_and_neighbours",
        "-dev none leaves llvmpipe out, and a busy loop on every core; a model of 1B",
        HERE,
        "llama_1b",
        Stage(("-dev", "none", "-c", "4096"), SHOWN, beside=(busy_loops(CPUS),)),
        "cpu_contended",
        cure=Stage(("-dev", "none", "-c", "4096"), SHOWN),
        fresh=True,
    ),
    Fault(
        "left_out_and_small_ubatch",
        "-dev none leaves llvmpipe out, and -ub 4: a prompt is read four tokens at a time",
        HERE,
        "smollm2",
        Stage(("-dev", "none", "-ub", "4"), SHOWN),
        "prefill_batch_too_small",
        cure=ON_CPU,
        metric="prefill",
        fresh=True,
    ),
    Fault(
        "healthy_layers_for_nobody",
        "-ngl 99, and the build skips llvmpipe by itself: no device takes them",
        HERE,
        "smollm2",
        Stage(("-ngl", "99")),
        verdict="normal",
        fresh=True,
    ),
    Fault(
        "healthy_left_out_by_environment",
        "LLAMA_ARG_DEVICE=none leaves llvmpipe out, two slots, and a user who pauses for four seconds",
        HERE,
        "smollm2",
        Stage(("-np", "2", "--metrics"), {**SHOWN, "LLAMA_ARG_DEVICE": "none"}, beside=(clients(1, pause_s=4.0),)),
        verdict="normal",
        fresh=True,
    ),
)
RUNTIME = Runtime(measured=_measured)
