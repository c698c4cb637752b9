"""The commands of SGLang: every knob as a flag, and what is none as advice."""

from collections.abc import Mapping

from unslow.facts.commands import by_hand
from unslow.facts.knob import Knob, Setting
from unslow.look.command_writer import PLACE, Advice, Answer, Turn, Wanted, Words, advice
from unslow.look.runtimes._engine_commands import (
    MORE_MEMORY,
    MOST_MEMORY,
    NO_GPUS,
    SHORTEST_CONTEXT,
    cache_type,
    gpus_in_use,
    number,
    only_away,
    program_of,
    share,
    switched_off_by,
    unthinking,
    visible_device,
)
from unslow.look.runtimes.sglang.server import FLAGS

_CACHE_TYPES = {
    **dict.fromkeys(("f16", "bf16", "auto"), "auto"),
    **dict.fromkeys(("q8_0", "q4_0", "fp8", "fp8_e5m2"), "fp8_e5m2"),
    **{word: word for word in ("fp8_e4m3", "bfloat16")},
}
"""By the nearest that it has; e5m2 needs no scales in the checkpoint (srt/server_args.py)."""


def _split(value: Setting, wanted: Wanted) -> Answer:
    """Every layer on so many GPUs, or with `layer` whole layers on each of those that are in use."""
    names = ("tensor_parallel", "pipeline_parallel")
    if value is None:
        return Words(names)
    if value == "layer":
        now = gpus_in_use(wanted.runtime)
        flag, count = "--pp-size", str(now) if now > 1 else PLACE
    else:
        given = isinstance(value, int) and not isinstance(value, bool) and value > 0
        flag, count = "--tp-size", "1" if value == "none" else str(value) if given else PLACE
    return Words(names, (flag, count), missing=NO_GPUS if count == PLACE else "")


def _capacity(_value: Setting, wanted: Wanted) -> Answer:
    fraction, shorter = wanted.runtime.gpu_memory_fraction.value_or(0.0), wanted.runtime.context_length.value_or(0) // 2
    more = f"--mem-fraction-static {min(MOST_MEMORY, fraction + MORE_MEMORY):.2f}"
    return Advice(
        [
            *([more] if 0 < fraction < MOST_MEMORY else []),
            "--kv-cache-dtype fp8_e5m2",
            *([f"--context-length {shorter}"] if shorter >= SHORTEST_CONTEXT else []),
        ],
        "how much more it needs is not known",
    )


_share = share("--mem-fraction-static", "memory_fraction")


_TURNS: Mapping[Knob, Turn] = {
    Knob.CONTEXT_LENGTH: number("context", "--context-length"),
    Knob.KV_CACHE_TYPE: cache_type("--kv-cache-dtype", _CACHE_TYPES, "SGLang"),
    Knob.PARALLEL: number("sequences", "--max-running-requests"),
    Knob.BATCH: number("batched_tokens", "--chunked-prefill-size"),
    Knob.SPLIT_MODE: _split,
    Knob.GPU_LAYERS: only_away("cpu_offload"),
    Knob.GRAPHS: switched_off_by("no_graphs", "--disable-cuda-graph"),
    Knob.QUANT_KERNEL: lambda value, _wanted: Words(("quantization",), ("--quantization", str(value)) if value else ()),
    Knob.SPECULATIVE: only_away("speculative", "draft_model", "draft_tokens"),
    Knob.PROMPT_CACHE: switched_off_by("no_prefix_cache", "--disable-radix-cache"),
    Knob.FLASH_ATTENTION: lambda value, _wanted: Words(
        ("attention",), () if value is None else ("--attention-backend", "triton" if value is False else "flashinfer")
    ),
    Knob.MEMORY_SHARE: _share,
    # what it leaves free is what its share leaves
    Knob.FIT_MARGIN: lambda value, wanted: Words() if Knob.MEMORY_SHARE in wanted.changes else _share(value, wanted),
    Knob.DEVICE: visible_device,
    Knob.CAPACITY: _capacity,
    Knob.QUANT: advice(by_hand("give `--model-path` a checkpoint of this model as AWQ, GPTQ or FP8")),
    Knob.THINKING: unthinking,
    Knob.VERSION: advice("pip install --upgrade sglang"),
}


_PROGRAM = program_of(
    "SGLang",
    FLAGS,
    _TURNS,
    bare=lambda at_hand: [
        *(at_hand.program or "python3", "-m", "sglang.launch_server"),
        *(["--model-path", at_hand.checkpoint] if at_hand.checkpoint else []),
    ],
    no_model="put `--model-path MODEL` into the line: which model it is, is not known",
)
commands_for = _PROGRAM.commands_for
