"""Flash attention is off, and at this depth it costs time or memory.

## Why it is slow
Without it the scores of all tokens against all others are written to memory and read back. That grows with the
context: prompts and long chats get slower, and the compute buffer takes room that layers could have. At short depths
it hardly matters.

Guides say that it shrinks the KV cache by a third to a half, but the cache is the same with and without: only the
compute buffer shrinks. It permits a quantised V cache, and that halves the cache. Guides also rank it among the first
things to install, but llama.cpp, Ollama and vLLM bring it along and switch it on by themselves (Ollama before 0.30 only
for some architectures). No runtime prints `flash-attention not found, falling back to SDPA`, and vLLM has not read
`VLLM_ATTENTION_BACKEND` since 0.15.

## How to confirm
The log says `Flash Attention not supported, set to disabled` or `flash_attn = disabled`, and the speed deep in the
context, or a compute buffer of gigabytes, shows it: `llama-bench -m MODEL -fa 0,1 -d 0,16384`.

## What it is not
`auto` that resolved to on. Nor a short chat, where it makes no difference, or a KV cache that is large: flash
attention does not shrink it.

## How to fix
- llama.cpp: `-fa on` (before build 6325 a bare `-fa`), or leave it on `auto`; where it was refused, another KV type,
  backend or build
- Ollama: `OLLAMA_FLASH_ATTENTION=1` in the environment of the service, or take the variable out
- LM Studio: "Flash Attention" in the load settings of the model
- Transformers: `attn_implementation="sdpa"` (its kernels are flash kernels) or `"flash_attention_2"`
- vLLM: `--attention-backend FLASH_ATTN`, where another was forced; SGLang: no `--attention-backend`

## Safety
Answers change only by rounding.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known
from unslow.think.case.demand import read_demand
from unslow.think.case.narrative import blames, slow_side_has, tried
from unslow.think.case.placement import seen_split
from unslow.think.case.prediction import Prediction, predict, predict_prefill
from unslow.think.case.vram import buffers_of
from unslow.think.case.work import Cure, prompt_speed, with_settings
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import fall_with_depth
from unslow.think.causes._facts import cite, cite_comparison, if_known, need

WORTH = 1.08  # Times faster with it, by physics, at the depth that was measured
WORTH_DEEP = 1.15  # Times slower, deep in the context, than with it: less is what two measurements differ by
LARGE_BUFFER = GIB
ON = Cure(flash_attention=True)


def check(case: Case) -> Found | Absent | Suspected:
    """See whether it is off, and what that costs here."""
    if case.runtime.flash_attention.value_or(default=False):
        return Absent("flash attention is on")
    return first_to_decide(case, _by_trial, _by_prompt, _by_depths, _by_buffer, _by_physics, _by_setting)


def _by_trial(case: Case) -> Found | Suspected | None:
    """Two speeds, and the slow one is that without it."""
    trial = tried(case, Topic.FLASH_ATTENTION)
    slow_with = slow_side_has(trial, Topic.FLASH_ATTENTION) if trial else None
    if trial is None or slow_with:
        return None
    if slow_with is None:
        return Suspected(trial.text, "which of the two speeds is the one with flash attention", CAUSE.ask)
    faster = trial.fast / trial.slow
    return _found(f"with flash attention it is {faster:.1f} times faster", (cite_comparison(case, trial),), faster)


def _by_prompt(case: Case) -> Found | None:
    """A long prompt that was read slower than with it, where physics says that this is what it costs."""
    need(case, "runtime.flash_attention")
    measured, now, then = prompt_speed(case), predict_prefill(case), predict_prefill(case, ON)
    if not isinstance(measured, Known) or not isinstance(now, Prediction) or not isinstance(then, Prediction):
        return None
    gain = now.seconds.mid / then.seconds.mid
    if gain < WORTH_DEEP or measured.value >= then.tokens_per_s.low:
        return None
    because = (
        f"flash attention is off: {measured.value:.0f} prompt tokens per second, and {gain:.1f} times as many with it"
    )
    fact = "run.long_prompt" if isinstance(case.run.long_prompt, Known) else "run.prefill_tokens_per_s"
    return _found(because, (cite(case, "runtime.flash_attention"), cite(case, fact)))


def _by_depths(case: Case) -> Found | Absent | None:
    """The speed as it was tried at two depths, against the fall that is left with it switched on."""
    need(case, "runtime.flash_attention")
    if seen_split(case):
        return None  # what is on the CPU falls otherwise
    fall = fall_with_depth(case, ON)
    if fall.beyond < WORTH_DEEP:
        return Absent(f"it is off, and costs little here: {fall.words}")
    slower = f"{fall.measured:.1f} times slower where it need be {fall.expected:.1f}"
    because = f"flash attention is off: {fall.words}, {slower}"
    tried = cite(case, "run.depths", words=fall.words)
    found = _found(because, (cite(case, "runtime.flash_attention"), tried), fall.beyond)
    return found._replace(explains=("kv_cache_outgrows_vram",))  # it rests on the same fall


def _by_physics(case: Case) -> Found | None:
    if need(case, "runtime.flash_attention") or not case.run.depth_tokens.value_or(0):
        return None
    now, then = predict(case), predict(case, ON)
    if not isinstance(now, Prediction) or not isinstance(then, Prediction):
        return None
    gain, depth = now.seconds.mid / then.seconds.mid, case.run.depth_tokens.value_or(0)
    if gain < WORTH:
        return None
    because = f"flash attention is off; {depth} tokens deep that costs a factor of {gain:.2f}"
    return _found(because, (cite(case, "runtime.flash_attention"), cite(case, "run.depth_tokens")))


def _by_buffer(case: Case) -> Found | None:
    """A compute buffer of gigabytes beside layers that found no room."""
    need(case, "runtime.flash_attention")
    held = sum(b.bytes for b in buffers_of(case, "compute", on_gpu=True))
    if held < LARGE_BUFFER or not seen_split(case):
        return None
    because = f"flash attention is off: the compute buffer takes {held / GIB:.1f} GiB while layers are on the CPU"
    found = _found(because, (cite(case, "runtime.flash_attention"), cite(case, "runtime.buffers")))
    # With the layers that come back; where that is all of them, it is the reason and not who else holds memory
    demand = if_known(read_demand, with_settings(case, ON))
    if demand is None:
        return found._replace(explains=("weights_spill_to_ram",))
    cure = ON._replace(vram_bytes=demand.available)
    spared = ("other_process_holds_vram",) if demand.lacking <= 0 else ()
    remedies = tuple(remedy._replace(cure=cure) for remedy in found.remedies)
    return found._replace(cure=cure, remedies=remedies, explains=("weights_spill_to_ram", *spared))


def _by_setting(case: Case) -> Suspected | None:
    if not isinstance(case.runtime.flash_attention, Known) or not blames(case, "prefill", "first_token", "decode"):
        return None
    return Suspected("flash attention is off", "how the speed falls with depth", CAUSE.ask)


def _found(because: str, evidence: Citations, speedup: float | None = None) -> Found:
    change = Knob.FLASH_ATTENTION.to(value=True, why="switch it on, or leave it to the runtime")
    return Found(because, evidence, ON, (Remedy(change, ON),), speedup=speedup)


CAUSE = Cause(
    title="Flash attention is off",
    phase="decode",
    needs=(("runtime.flash_attention", "account.comparisons"),),
    check=check,
    gpu_only=True,
    ask="{try_flash_attention}",
)
