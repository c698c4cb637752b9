"""All layers are on the GPU but the output layer, which is as large as many others together.

## Why it is slow
The output layer turns each token into a score for every word of the vocabulary. With large vocabularies it is several
times as large as a repeating layer, it is read in full for every token, and on the CPU it alone can cost more than all
layers on the GPU.

## How to confirm
The log says `offloading output layer to CPU` (Ollama before 0.30), or an override names it (`-ot output=CPU`). Builds
of llama.cpp until spring 2025 placed the output layer last: there `offloaded 32/33` means the output layer. Newer
builds place it first, and the same line means one repeating layer. A model without an output tensor of its own uses its
token table, so there an override of `token_embd` is one of the output.

Guides count the layers of a model without it (32 of an 8B model), but `-ngl` and the log count it as one more (33).

## What it is not
One repeating layer short of all: newer builds place the output layer first, so there `offloaded 32/33` leaves out one
layer like any other.

## How to fix
- llama.cpp: take `output` out of `-ot` (`--override-tensor`); old builds: one more layer (`-ngl 33`, or 99)
- Ollama: `num_gpu` one higher, and no `LLAMA_ARG_OVERRIDE_TENSOR` in the environment of the service
- LM Studio: the GPU offload slider at its maximum: one step below leaves out two layers

Room for it comes from a shorter context, if need be.

## Safety
Answers do not change beyond rounding.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.overrides import overrides_of, sent_away
from unslow.think.case.placement import leaves_out_the_output
from unslow.think.case.vram import buffers_of
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy
from unslow.think.causes._facts import cite, need
from unslow.think.report import Evidence

ON_GPU = Cure(output_on_gpu=True)


def check(case: Case) -> Found | Absent:
    """See on which side the output layer is: said, set, or counted by an old build."""
    if sent_away(case).output:
        if case.runtime.gpu_layers.value_or(1) == 0:
            return Absent("no layer is on the GPU")
        removed = Knob.EXPERTS_ON_CPU.to(None, "take the output out of the override")
        because = f"{(overrides_of(case, 'output') or ['a setting'])[0]} keeps the output layer on the CPU"
        return Found(because, (cite(case, "runtime.tensor_overrides"),), ON_GPU, (Remedy(removed, ON_GPU),))
    if isinstance(case.runtime.output_on_gpu, Known):
        return _by_log(case)
    on_gpu, layers = need(case, "runtime.gpu_layers"), need(case, "runtime.layers")
    if on_gpu < layers - 1:
        return Absent(f"{on_gpu}/{layers} layers are on the GPU: more than one is not")
    if on_gpu >= layers:
        return _as_counted(case, f"{on_gpu}/{layers} layers are on the GPU: all")
    need(case, "runtime.version")
    if leaves_out_the_output(case):
        because = f"{on_gpu} of {layers} layers are on the GPU, and this build places the output layer last"
        return _found(case, because, cite(case, "runtime.gpu_layers", f"{layers} layers"))
    need(case, "runtime.output_on_gpu")
    return Absent("one repeating layer is short")


def _as_counted(case: Case, counted: str) -> Absent:
    """A layer counts as on the GPU even where an override sent it away: its bytes or the settings tell."""
    held = sum(b.bytes for b in buffers_of(case, "model", on_gpu=True))
    weights, table = case.model.weights_bytes.value_or(0), case.model.token_table_bytes.value_or(0)
    if not weights or held < weights - table - case.model.output_bytes.value_or(0) / 2:
        need(case, "runtime.tensor_overrides")
    return Absent(counted)


def _by_log(case: Case) -> Found | Absent:
    runtime = case.runtime
    if runtime.output_on_gpu.value_or(default=True):
        return _as_counted(case, "the output layer is on the GPU")
    if not runtime.gpu_layers.value_or(1):
        return Absent("no layer is on the GPU")
    on_gpu, layers = runtime.gpu_layers.value_or(0), runtime.layers.value_or(0)
    if isinstance(runtime.gpu_layers, Known) and on_gpu < layers - 1:
        return Absent(f"{on_gpu}/{layers} layers are on the GPU: more than one is not")
    counted = f"; {on_gpu} of {layers} layers are on the GPU" if layers else ""
    return _found(case, f"the output layer is computed by the CPU{counted}", cite(case, "runtime.output_on_gpu"))


def _found(case: Case, because: str, evidence: Evidence) -> Found:
    layers = case.runtime.layers.value_or(0)
    change = Knob.GPU_LAYERS.to(layers or None, "all layers, the output layer among them")
    return Found(because, (evidence,), ON_GPU, (Remedy(change, ON_GPU),))


CAUSE = Cause(
    title="The output layer is on the CPU",
    phase="decode",
    needs=(("runtime.output_on_gpu", "runtime.tensor_overrides", "runtime.gpu_layers"),),
    check=check,
    on_gpu=True,
    ggml_only=True,
    explains=("weights_spill_to_ram", "memory_estimate_too_careful"),
    gpu_only=True,
    ask="the line `offloading output layer to` of {load_log}, and {command_line}",
)
