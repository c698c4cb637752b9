"""Prefill waits for weights in host memory to be copied to the GPU, once for every micro-batch.

## Why it is slow
Where layers or experts are in host memory, llama.cpp still computes long prompts on the GPU: it copies those weights
over PCIe once per micro-batch. With hundreds of gigabytes of experts each copy takes many seconds, and only the 512
tokens of a micro-batch share it.

## How to confirm
Prefill speed is about micro-batch / (bytes in host memory / link rate), and grows with the micro-batch: `llama-bench
-m MODEL -p 4096 -n 0 -ub 512,2048,4096`, with the placement of the server. During prefill the link is busy, not the
GPU.

## What it is not
A GPU that computes at full rate during prefill, or short prompts, which the CPU computes.

## How to fix
A larger micro-batch shares each copy among more tokens. llama.cpp: `-ub 4096 -b 4096`; Ollama: `num_batch`; LM Studio:
`evalBatchSize`. Fewer bytes in host memory help in proportion. Where even that is slower than the CPU, disable the
copying (llama.cpp `--no-op-offload`). vLLM copies `--cpu-offload-gb` for every step, prefill and decode alike: drop it;
so does Transformers with a `device_map` that contains `cpu`.

## Safety
Answers do not change. A larger micro-batch needs more VRAM for its compute buffer.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.gpus import FASTEST_BYTES_PER_S, SHOW_LINK
from unslow.think.case.group import missing
from unslow.think.case.narrative import WORTH_COMPARING
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding

LARGE_UBATCH = 4096  # Tokens: the most that people use for experts in RAM; its compute buffer takes a few GiB
SHORT_COPY_S = 0.25  # For each micro-batch: a shorter copy is not noticed
LONG_COPY_S = 1.0  # For each micro-batch: whoever waits for a prompt notices a longer one
SMALL_BYTES = GB
SHOWN = (
    "run.long_prompt",
    "run.prefill_tokens_per_s",
    "runtime.history.prefill_tokens_per_s",
    "runtime.memory.buffers",
    "model.weights_bytes",
)
WHY = "a larger micro-batch shares each copy among more tokens"


def all_on_gpu(case: CaseView) -> Absent | None:
    """Whether any weights are in host memory: only those are copied."""
    return Absent("all weights are on the GPU") if case.placement.cpu_computes is False else None


def copying_is_off(case: CaseView) -> Absent | None:
    """The setting that leaves prefill of host weights to the CPU."""
    is_off = case.runtime.placement.op_offload.get() is False
    return Absent("copying weights for prefill is disabled") if is_off else None


def copies_seen_by_person(case: CaseView) -> Found | None:
    """A user watched prefill wait for copies of weights."""
    said = case.narrative.remarks_on(Topic.COPIES_TO_GPU)
    in_ram = case.placement.cpu_computes or case.narrative.remarks_on(Topic.EXPERTS_ON_CPU)
    if not said or not in_ram or not case.narrative.is_report:
        return None
    larger = Remedy(Knob.BATCH.to(LARGE_UBATCH, WHY), None, "a larger compute buffer")
    return finding(case, f"prefill waits for weights to cross the link: {said[0].text}", said[0], fixes=[larger])


def speed_against_copies(case: CaseView) -> Found | Absent | None:
    """The measured prefill speed against what copying the host's weights allows."""
    link, speed, in_ram = case.gpus.host_link_bytes_per_s, case.speed.prompt_speed, case.placement.host_weights_bytes
    if in_ram < SMALL_BYTES:
        return Absent(f"only {in_ram / GB:.1f} GB of weights are in host memory")
    if not isinstance(speed, Known) or not link:
        return None
    copy_s, tokens, words = _copy(case)
    copies, (ubatch, fix) = case.speed.prompt_copies(link), _larger_batch(case)
    if not copies or not copies.is_bound:
        return Absent(f"copying would allow prefill at {tokens / copy_s:.0f} tok/s, and it reaches {speed.value:.0f}")
    price = case.speed.larger_ubatch_price(copies, ubatch)
    if price.speedup < WORTH_COMPARING:
        return Absent(f"{words}, but a larger micro-batch would gain next to nothing")
    because, shown = f"{words}; that allows {tokens / copy_s:.0f} tok/s", case.cite_known(*SHOWN)
    return finding(case, because, shown, fixes=[fix], speedup=price.speedup, lost=price.lost)


def copy_time(case: CaseView) -> Found | Absent | Suspected:
    """How long each copy takes, where the prefill speed or the link is not known."""
    copy_s, _, words = _copy(case)
    if copy_s >= LONG_COPY_S and case.narrative.names_phase("prefill"):
        return finding(case, words, case.cite_known(*SHOWN), fixes=[_larger_batch(case)[1]])
    if copy_s < SHORT_COPY_S and not case.gpus.host_link_bytes_per_s:
        raise missing("the speed of the link between host and GPU", SHOW_LINK)
    if copy_s < SHORT_COPY_S:
        return Absent(f"{words}, too short to notice")
    if copy_s < LONG_COPY_S:
        case.ask_for("run.prefill_tokens_per_s", "{prompt_speed}")
    return Suspected(words, "the prefill speed of a long prompt", "{prompt_speed}")


def _copy(case: CaseView) -> tuple[float, float, str]:
    """The seconds of one copy of the host's weights, the shortest possible where the link is not known; its tokens.

    A prompt that is shorter than a micro-batch does not fill it. At the end the same in words.
    """
    link, size, ubatch = case.gpus.host_link_bytes_per_s, case.placement.host_weights_bytes, case.speed.ubatch_tokens
    seconds, tokens = size / (link or FASTEST_BYTES_PER_S), min(ubatch, case.speed.measured_prompt_tokens or ubatch)
    took = f"{'' if link else 'at least '}{seconds:.1f} s"
    words = f"{size / GB:.0f} GB of weights cross the link for every {tokens:.0f} prompt tokens: {took}"
    return seconds, tokens, words


def _larger_batch(case: CaseView) -> tuple[int, Remedy]:
    ubatch = max(LARGE_UBATCH, 4 * case.speed.ubatch_tokens)
    return ubatch, Remedy(Knob.BATCH.to(ubatch, WHY), Cure(ubatch=ubatch), "more VRAM for the compute buffer")


CAUSE = Cause(
    title="Prefill waits for weights to cross PCIe",
    phase="prefill",
    needs=all_of("machine.gpus", "runtime.memory.buffers or model.weights_bytes or account.remarks"),
    routes=(
        Route("counted", all_on_gpu),
        Route("counted", copying_is_off),
        Route("told", copies_seen_by_person),
        Route("measured", speed_against_copies),
        Route("counted", copy_time),
    ),
    on_gpu=True,
    gpu_only=True,
    ask="{placement}; and {prompt_speed}",
)
