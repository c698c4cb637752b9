"""The output layer is the one layer on the CPU, and it is as large as several others together.

## Why it is slow
The output layer turns each token into a score for every word of the vocabulary. With large vocabularies it is several
times as large as a repeating layer. Every token reads all its weights, so on the CPU it alone can cost more than the
layers on the GPU.

## How to confirm
The log says `offloading output layer to CPU` (Ollama before 0.30), or an override names it (`-ot output=CPU`). Builds
of llama.cpp until spring 2025 placed the output layer last: there `offloaded 32/33` means the output layer. Newer
builds place it first, and the same line means one repeating layer. A model without an output tensor of its own reuses
its token table, so there an override of `token_embd` moves the output.

Guides count the layers of a model without it (32 for an 8B model), but `-ngl` and the log count it as one more (33).

## What it is not
One repeating layer short of all: newer builds place the output layer first, so there `offloaded 32/33` leaves out one
layer like any other.

## How to fix
- llama.cpp: take `output` out of `-ot` (`--override-tensor`); old builds: one more layer (`-ngl 33`, or 99)
- Ollama: `num_gpu` one higher, and no `LLAMA_ARG_OVERRIDE_TENSOR` in the environment of the service
- LM Studio: the GPU offload slider at its maximum: one step below leaves out two layers

If it does not fit, a shorter context makes room for it.

## Safety
Answers do not change beyond rounding.
"""

from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, all_of, finding

ON_GPU = Cure(output_on_gpu=True)
ALL_LAYERS = "all layers, including the output layer"


def tensor_override(case: CaseView) -> Found | Absent | None:
    """Whether an override sends the output tensor to the CPU."""
    if not case.placement.sent_to_cpu.output:
        return None
    if case.runtime.placement.gpu_layers.get() == 0:
        return Absent("no layer is on the GPU")
    return finding(
        case,
        f"{(case.placement.overrides_sending('output') or ['a setting'])[0]} keeps the output layer on the CPU",
        "runtime.placement.tensor_overrides",
        cure=ON_GPU,
        fixes=[Knob.EXPERTS_ON_CPU.to(None, "remove the output from the override")],
    )


def output_line_of_log(case: CaseView) -> Found | Absent | None:
    """Where the log says the output layer is."""
    placement = case.runtime.placement
    if not isinstance(placement.output_on_gpu, Known):
        return None
    if placement.output_on_gpu.value:
        _need_overrides_unless_held(case)
        return Absent("the output layer is on the GPU")
    on_gpu, layers = placement.gpu_layers.get(), placement.layers.get()
    if on_gpu == 0:
        return Absent("no layer is on the GPU")
    if on_gpu is not None and layers and on_gpu < layers - 1:
        return Absent(f"{on_gpu}/{layers} layers are on the GPU: more than one is missing")
    counted = f"; {on_gpu} of {layers} layers are on the GPU" if on_gpu and layers else ""
    return finding(
        case,
        f"the CPU computes the output layer{counted}",
        "runtime.placement.output_on_gpu",
        cure=ON_GPU,
        fixes=[Knob.GPU_LAYERS.to(layers or None, ALL_LAYERS)],
    )


def count_of_layers(case: CaseView) -> Found | Absent | None:
    """Whether one layer is missing on the GPU, and whether this build places the output layer last."""
    if isinstance(case.runtime.placement.output_on_gpu, Known):
        return None
    on_gpu, layers = case.need("runtime.placement.gpu_layers"), case.need("runtime.placement.layers")
    if on_gpu < layers - 1:
        return Absent(f"{on_gpu}/{layers} layers are on the GPU: more than one is missing")
    if on_gpu >= layers:
        _need_overrides_unless_held(case)
        return Absent(f"all {layers} layers are on the GPU")
    case.need("runtime.version")
    if not case.placement.leaves_out_output:
        case.need("runtime.placement.output_on_gpu")  # with newer builds only the log tells which layer it is
    return finding(
        case,
        f"{on_gpu} of {layers} layers are on the GPU, and this build places the output layer last",
        case.cite("runtime.placement.gpu_layers", f"{layers} layers"),
        cure=ON_GPU,
        fixes=[Knob.GPU_LAYERS.to(layers or None, ALL_LAYERS)],
    )


def _need_overrides_unless_held(case: CaseView) -> None:
    """A layer counts as on the GPU even where an override sent it away: only its bytes or the overrides tell."""
    held, weights = sum(b.bytes for b in case.vram.buffers("model", on_gpu=True)), case.memory.weights_bytes
    least = weights - (case.model.token_table_bytes.get() or 0) - (case.model.output_bytes.get() or 0) / 2
    if not weights or held < least:
        case.need("runtime.placement.tensor_overrides")


CAUSE = Cause(
    title="The output layer is on the CPU",
    phase="decode",
    needs=all_of(
        "runtime.placement.output_on_gpu or runtime.placement.tensor_overrides or runtime.placement.gpu_layers"
    ),
    routes=(Route("counted", tensor_override), Route("log", output_line_of_log), Route("counted", count_of_layers)),
    on_gpu=True,
    ggml_only=True,
    explains=("weights_spill_to_ram", "memory_estimate_too_careful"),
    gpu_only=True,
    ask="the line `offloading output layer to` of {load_log}, and {command_line}",
)
