"""What a plan that was not made of a server takes away from it: flags that would make another plan of it."""

from collections.abc import Mapping, Sequence

from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import Runtime
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.llama_server.flags import OFF

_DECIDED: Mapping[str, Knob] = {
    "fit": Knob.FIT,
    "gpu_layers": Knob.GPU_LAYERS,
    "override": Knob.TENSOR_OVERRIDE,
    "n_cpu_moe": Knob.EXPERTS_ON_CPU,
    "cpu_moe": Knob.EXPERTS_ON_CPU,
    "split_mode": Knob.SPLIT_MODE,
    "tensor_split": Knob.TENSOR_SPLIT,
    "main_gpu": Knob.MAIN_GPU,
    "slots": Knob.PARALLEL,
    "kv_type_k": Knob.KV_CACHE_TYPE,
    "kv_type_v": Knob.KV_CACHE_TYPE,  # without a change of its own, the type of values goes with that of keys
    "kv_offload": Knob.KV_OFFLOAD,
    "ubatch": Knob.BATCH,
    "batch": Knob.LOGICAL_BATCH,
    "threads": Knob.THREADS,
}
"""Settings of llama-server that a plan decides on; where it does not name one, it means what llama.cpp does alone."""
_ONLY_OFF = {"flash_attention": (Knob.FLASH_ATTENTION, OFF), "device": (Knob.DEVICE, ("none",))}
"""Those that are in a plan's way only where they turn something off."""
_WHY = "the plan is without it"


def with_taken_away(changes: Sequence[Change], runtime: Runtime) -> list[Change]:
    """The changes, and what else the server was told that they must not meet."""
    if not runtime.name.value_or("").endswith("llama.cpp"):
        return list(changes)
    told = parse_settings(runtime.command.value_or([]), runtime.environment.value_or({}))
    knobs = [knob for name, knob in _DECIDED.items() if name in told]
    knobs += [knob for name, (knob, off) in _ONLY_OFF.items() if name in told and told[name].value in off]
    named = {change.knob for change in changes}
    return [*changes, *(Change(knob, None, _WHY) for knob in dict.fromkeys(knobs) if knob not in named)]
