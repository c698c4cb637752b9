"""Flash attention is off, and at this depth it costs time or memory.

## Why it is slow
Without it the scores of all tokens against all others are written to memory and read back. That grows with the
context: prompts and long chats get slower, and the compute buffer takes room that layers could have. It does not
change the size of the KV cache, and at short depths it hardly matters.

## How to confirm
The log says `flash_attn = 0` or `Flash Attention was auto, set to disabled`, and speed at depth, or a compute buffer
of gigabytes, shows it.

## How to fix
`-fa on` (or leave it on auto), `OLLAMA_FLASH_ATTENTION=1`, `attn_implementation="sdpa"` for Transformers.

## Safety
Answers change only by rounding.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import Known
from unslow.think.adapt.experiments import blames, tried
from unslow.think.adapt.placement import seen_split
from unslow.think.adapt.vram import buffers_of
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite, need
from unslow.think.causes._routes import cite_comparison, first_to_decide
from unslow.think.predict import Prediction, predict
from unslow.think.report import Evidence

WORTH = 1.08
"""Times faster with it, by physics, at the depth that was measured."""
LARGE_BUFFER = GIB
_OFF = re.compile(r"(?:\boff\b|without|disabl|\bno[- ]|= ?0\b)", re.IGNORECASE)
ON = Cure(flash_attention=True)


def check(case: Case) -> Found | Absent | Suspected:
    """See whether it is off, and what that costs here."""
    if case.runtime.flash_attention.value_or(default=False):
        return Absent("flash attention is on")
    return first_to_decide(case, _by_trial, _by_physics, _by_buffer, _by_setting)


def _by_trial(case: Case) -> Found | None:
    """Two speeds, and the slow one is known to be that without it."""
    trial = tried(case, Topic.FLASH_ATTENTION)
    if trial is None:
        return None
    if not isinstance(case.runtime.flash_attention, Known) and not _OFF.search(trial.text):
        return None
    faster = trial.fast / trial.slow
    return _found(f"with flash attention it is {faster:.1f} times faster", (cite_comparison(case, trial),), faster)


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


def _by_buffer(case: Case) -> Found | Absent | None:
    """A compute buffer of gigabytes beside layers that found no room."""
    need(case, "runtime.flash_attention")
    held = sum(b.bytes for b in buffers_of(case, "compute", on_gpu=True))
    if not held:
        return None
    if held < LARGE_BUFFER or not seen_split(case):
        return Absent(f"it is off, and costs little here: {held / GIB:.1f} GiB of compute buffer")
    because = f"flash attention is off: the compute buffer takes {held / GIB:.1f} GiB while layers are on the CPU"
    return _found(because, (cite(case, "runtime.flash_attention"), cite(case, "runtime.buffers")))


def _by_setting(case: Case) -> Suspected | None:
    if not isinstance(case.runtime.flash_attention, Known) or not blames(case, "prefill", "first_token", "decode"):
        return None
    return Suspected("flash attention is off", "how the speed falls with depth", CAUSE.ask)


def _found(because: str, evidence: tuple[Evidence, ...], speedup: float | None = None) -> Found:
    change = Knob.FLASH_ATTENTION.to(value=True, why="switch it on, or leave it to the runtime")
    return Found(because, evidence, ON, (Remedy(change, ON),), speedup=speedup)


CAUSE = Cause(
    title="Flash attention is off",
    phase="decode",
    needs=(("runtime.flash_attention", "account.comparisons"),),
    check=check,
    gpu_only=True,
    ask="`llama-bench -m MODEL -fa 0,1 -d 0,16384`, or the same request with `-fa on` and `-fa off`",
)
