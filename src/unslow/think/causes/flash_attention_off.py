"""Flash attention is off, and at this depth that costs time or memory.

## Why it is slow
Without it, the attention scores of all tokens against all others are written to memory and read back. That grows with
the context: prefill and long chats get slower, and the compute buffer takes VRAM that layers could use. At short depths
it hardly matters.

Guides say that it shrinks the KV cache by a third to a half, but the cache has the same size with and without: only
the compute buffer shrinks. It does permit a quantized V cache, which halves the cache. Guides also rank it among the
first things to install, but llama.cpp, Ollama and vLLM include it and enable it by default (Ollama before 0.30 only for
some architectures). No runtime prints `flash-attention not found, falling back to SDPA`, and vLLM has not read
`VLLM_ATTENTION_BACKEND` since 0.15.

## How to confirm
The log says `Flash Attention not supported, set to disabled` or `flash_attn = disabled`, and the speed deep in the
context, or a compute buffer of gigabytes, shows it: `llama-bench -m MODEL -fa 0,1 -d 0,16384`.

## What it is not
`auto` that resolved to on. Nor a short chat, where it makes no difference, or a large KV cache, which flash attention
does not shrink.

## How to fix
- llama.cpp: `-fa on` (before build 6325 a bare `-fa`), or leave it on `auto`; where it was refused, another KV type,
  backend or build
- Ollama: `OLLAMA_FLASH_ATTENTION=1` in the environment of the service, or remove the variable
- LM Studio: "Flash Attention" in the load settings of the model
- Transformers: `attn_implementation="sdpa"` (its kernels are flash kernels) or `"flash_attention_2"`
- vLLM: `--attention-backend FLASH_ATTN`, where another was forced; SGLang: no `--attention-backend`

## Safety
Answers change only by rounding.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.group import if_known
from unslow.think.case.narrative import slow_side_has, told_ratio
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding

SETTING = "runtime.compute.flash_attention"
WORTH = 1.08  # Times faster with it, by physics, at the depth that was measured
WORTH_DEEP = 1.15  # Times slower than with it, deep in the context: two measurements differ by less
LARGE_BUFFER = GIB
ON = Cure(flash_attention=True)
_ENABLE = Knob.FLASH_ATTENTION.to(value=True, why="enable flash attention, or leave it to the runtime")


def setting(case: CaseView) -> Absent | None:
    """Whether flash attention is on, by the log or the settings."""
    return Absent("flash attention is on") if case.runtime.compute.flash_attention.get() else None


def faster_with_it(case: CaseView) -> Found | Suspected | None:
    """A user timed it with and without flash attention."""
    trial = case.narrative.trial_of(Topic.FLASH_ATTENTION)
    slow_with = slow_side_has(trial, Topic.FLASH_ATTENTION) if trial else None
    if trial is None or slow_with:
        return None
    if slow_with is None:
        return Suspected(trial.text, "which of the two speeds is the one with flash attention", CAUSE.ask)
    faster = told_ratio(trial)
    because = f"with flash attention it is {faster:.1f} times faster"
    return finding(case, because, cure=ON, fixes=[_ENABLE], trial=trial, speedup=faster)


def long_prompt(case: CaseView) -> Found | None:
    """The prefill speed of a long prompt, against what is expected with flash attention."""
    case.need(SETTING)
    measured, now, then = case.speed.prompt_speed, case.speed.predict_prefill(), case.speed.predict_prefill(ON)
    if not isinstance(measured, Known) or not isinstance(now, Prediction) or not isinstance(then, Prediction):
        return None
    gain = now.seconds.mid / then.seconds.mid
    if gain < WORTH_DEEP or measured.value >= then.tokens_per_s.low:
        return None
    because = f"flash attention is off: prefill at {measured.value:.0f} tok/s would be {gain:.1f} times as fast with it"
    return finding(case, because, SETTING, case.speed.prompt_fact, cure=ON, fixes=[_ENABLE])


def two_depths(case: CaseView) -> Found | Absent | None:
    """How far decode slows down with depth, against the fall expected with flash attention."""
    case.need(SETTING)
    if case.placement.split:
        return None  # layers on the CPU slow down differently
    fall = case.speed.fall_with_depth(ON)
    if fall.beyond < WORTH_DEEP:
        return Absent(f"flash attention is off, but that costs little here: {fall.words}")
    return finding(
        case,
        f"flash attention is off: {fall.words}, {fall.measured_fall:.1f} times slower ({fall.expected:.1f} expected)",
        SETTING,
        case.cite("run.depths", words=fall.words),
        cure=ON,
        fixes=[_ENABLE],
        speedup=fall.beyond,
        explains=("kv_cache_outgrows_vram",),  # it rests on the same fall
    )


def compute_buffer(case: CaseView) -> Found | None:
    """A compute buffer of gigabytes beside layers that did not fit."""
    case.need(SETTING)
    held = sum(b.bytes for b in case.vram.buffers("compute", on_gpu=True))
    if held < LARGE_BUFFER or not case.placement.split:
        return None
    # With the layers that come back; where that is all of them, other processes are not the reason
    demand = if_known(case.with_cure(ON).memory.demand)
    spared = ("other_process_holds_vram",) if demand and demand.lacking <= 0 else ()
    return finding(
        case,
        f"flash attention is off: the compute buffer takes {held / GIB:.1f} GiB while layers are on the CPU",
        SETTING,
        "runtime.memory.buffers",
        cure=ON._replace(vram_bytes=demand.available) if demand else ON,
        fixes=[_ENABLE],
        explains=("weights_spill_to_ram", *spared),
    )


def depth_by_physics(case: CaseView) -> Found | None:
    """What physics says it costs at the depth of the measurement."""
    depth = case.run.depth_tokens.get()
    if case.need(SETTING) or not depth:
        return None
    now, then = case.speed.predict(), case.speed.predict(ON)
    if not isinstance(now, Prediction) or not isinstance(then, Prediction):
        return None
    gain = now.seconds.mid / then.seconds.mid
    if gain < WORTH:
        return None
    because = f"flash attention is off, which costs a factor of {gain:.2f} at a depth of {depth} tokens"
    return finding(case, because, SETTING, "run.depth_tokens", cure=ON, fixes=[_ENABLE])


def said_by_person(case: CaseView) -> Suspected | None:
    """It is off, and a user finds prefill or decode slow."""
    is_slow = case.narrative.blames("prefill", "first_token", "decode")
    if not isinstance(case.runtime.compute.flash_attention, Known) or not is_slow:
        return None
    return Suspected("flash attention is off", "how the speed falls with depth", CAUSE.ask)


CAUSE = Cause(
    title="Flash attention is off",
    phase="decode",
    needs=all_of("runtime.compute.flash_attention or account.comparisons"),
    routes=(
        Route("log", setting),
        Route("told", faster_with_it),
        Route("measured", long_prompt),
        Route("measured", two_depths),
        Route("log", compute_buffer),
        Route("counted", depth_by_physics),
        Route("told", said_by_person),
    ),
    gpu_only=True,
    ask="{try_flash_attention}",
)
