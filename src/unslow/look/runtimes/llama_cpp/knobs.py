"""How llama-server spells each knob: the flag, and the whole command line to start it again with."""

import re
import shlex
from collections.abc import Mapping, Sequence

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.units import MIB
from unslow.facts.values import Known
from unslow.look.command_line import taken_out, unset
from unslow.look.llama_server.arguments import spelled_flags, without_secrets
from unslow.look.llama_server.builds import LOAD_MODE, build_number
from unslow.look.llama_server.flags import FLAGS
from unslow.look.llama_server.options import Options
from unslow.look.runtimes.llama_cpp.words import MOST_LAYERS

_NAMES: dict[Knob, tuple[str, ...]] = {
    Knob.GPU_LAYERS: ("gpu_layers",),
    Knob.EXPERTS_ON_CPU: ("n_cpu_moe", "cpu_moe", "override"),
    Knob.CONTEXT_LENGTH: ("context",),
    Knob.KV_CACHE_TYPE: ("kv_type_k", "kv_type_v"),
    Knob.THREADS: ("threads",),
    Knob.DEVICE: ("device",),
    Knob.FIT: ("fit", "gpu_layers", "context"),  # an explicit number of layers or context stops the fit
    Knob.FIT_MARGIN: ("fit_margin",),
    Knob.PARALLEL: ("slots",),
    Knob.KV_OFFLOAD: ("kv_offload",),
    Knob.FLASH_ATTENTION: ("flash_attention",),
    Knob.BATCH: ("ubatch", "batch"),
    Knob.SPLIT_MODE: ("split_mode",),
    Knob.TENSOR_SPLIT: ("tensor_split",),
    Knob.LOAD_MODE: ("load_mode", "mlock", "mmap", "direct_io"),
    Knob.NUMA: ("numa",),
    Knob.SPECULATIVE: ("draft_model", "draft_repository", "draft_type", "draft_tokens"),
    Knob.SAMPLER: ("top_k",),
    Knob.PROMPT_CACHE: ("prompt_cache",),
}
_SET_BY_FIRST = (Knob.EXPERTS_ON_CPU, Knob.SPECULATIVE, Knob.LOAD_MODE)
"""Knobs whose first flag gives the value; the others only stand in its way."""
_GRAPHS_OFF = "GGML_CUDA_DISABLE_GRAPHS"
_USUAL_BATCH = 2048
_FEWER = "-ngl N, with fewer layers than now: builds before b7407 do not fit them by themselves"
_UNTHINKING = ["--reasoning-budget 0", labelled(Place.REQUEST, '"chat_template_kwargs": {"enable_thinking": false}')]
_NATIVE = (
    "in llama.cpp's source, on this machine: cmake -B build -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release && "
    "cmake --build build --target llama-server -j"
)
_HANDED_ON = {"CUDA": "--gpus all", "ROCm": "--device /dev/kfd --device /dev/dri"}
_CLOSED = re.compile(r"(?i)permission|/dev/kfd|no ROCm-capable device")
"""What ROCm says where it may not open the device."""
_OLD_LOAD_MODES = {"none": ["--no-mmap"], "mlock": ["--no-mmap", "--mlock"], "mmap+mlock": ["--mlock"], "dio": ["-dio"]}


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type, from the shortest to the whole command where that is known; [] where there is nothing to type."""
    if change.knob is Knob.FIT and change.value is not False and not Options(runtime, {}).fits_by_itself:
        return [labelled(Place.HAND, _FEWER)]
    if change.knob is Knob.FIT and change.value:
        change = Change(Knob.FIT, None, change.why)  # it is on unless something stops it
    if change.knob not in _NAMES:
        return _outside_the_flags(change, runtime)
    command, environment = runtime.command.value_or([]), runtime.environment.value_or({})
    if not _changes_anything(change, command, runtime):
        return []
    fragment = _fragment(change, command, runtime)
    if not command:
        return [fragment]
    words = changed_command(command, change, runtime)
    return [fragment, restart(words, change, environment)]


def _changes_anything(change: Change, command: Sequence[str], runtime: Runtime) -> bool:
    """Whether there is a word to add, or one to take away from a command line that is known."""
    names, environment = _names(change, runtime), runtime.environment.value_or({})
    given = any(flag.name in names for flag in spelled_flags(command))
    return bool(_words(change, runtime)) or not command or given or bool(variables_of(names, environment))


def variables_of(names: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The variables of the server's environment that give these settings, or the opposite of a switch."""
    found = [(variable, flag) for name in names for flag in (FLAGS[name],) for variable in flag.variables]
    opposites = [variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_", 1) for variable, flag in found if flag.opposites]
    return [variable for variable in (*(v for v, _ in found), *opposites) if variable in environment]


def _outside_the_flags(change: Change, runtime: Runtime) -> list[str]:
    command, environment = runtime.command.value_or([]), runtime.environment.value_or({})
    again = [shlex.join(without_secrets(command))] if command else []
    unhidden = _without_variable("CUDA_VISIBLE_DEVICES", command, environment)
    graphs = _without_variable(_GRAPHS_OFF, command, environment)
    words: dict[Knob, list[str]] = {
        Knob.OTHER_PROCESS: again,  # once the memory is free, a restart fits the layers anew
        Knob.QUANT: [labelled(Place.HAND, f"give `-m` the file of this model as {change.value or 'a smaller quant'}")],
        Knob.GPU_BACKEND: ["unset CUDA_VISIBLE_DEVICES", *unhidden] if unhidden else _seen(change.value, runtime),
        Knob.GRAPHS: [f"unset {_GRAPHS_OFF}", *graphs],
        Knob.KEEP_ALIVE: ["--sleep-idle-seconds -1"],
        Knob.VERSION: [labelled(Place.HAND, f"install llama.cpp {change.value or 'anew, in a newer build'}")],
        Knob.NATIVE_BUILD: [labelled(Place.HAND, _NATIVE)],
        Knob.THINKING: _UNTHINKING,
        Knob.LOADED_MODELS: [f"--models-max {change.value or 'N'}"],  # of the router, whose command is another
    }
    return words.get(change.knob, [])


def _seen(backend: Setting, runtime: Runtime) -> list[str]:
    """What a build needs to see the GPU: in a container the devices, elsewhere also the right to open them."""
    handed_on = _HANDED_ON.get(str(backend))
    if runtime.container.value_or("") and handed_on:
        return [f"docker run {handed_on} IMAGE", labelled(Place.HAND, f"IMAGE is one that is built for {backend}")]
    closed = backend == "ROCm" and _CLOSED.search(runtime.gpu_refused.value_or(""))
    allowed = ["sudo usermod -a -G render,video $USER"] if closed else []
    return [labelled(Place.HAND, f"install a llama.cpp build{_for(backend)} and its driver"), *allowed]


def _for(backend: Setting) -> str:
    return f" for {backend}" if backend else ""


def _without_variable(name: str, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    return [shlex.join([*unset([name]), *without_secrets(command)])] if command and name in environment else []


def changed_command(command: Sequence[str], change: Change, runtime: Runtime | None = None) -> list[str]:
    """The command line with the knob's flags taken out, and put in anew unless the value is None."""
    names = _names(change, runtime or Runtime())
    kept = taken_out(command, ((flag.start, flag.end) for flag in spelled_flags(command) if flag.name in names))
    return [*kept, *_words(change, runtime or Runtime())]


def _names(change: Change, runtime: Runtime) -> tuple[str, ...]:
    """The flags that a change touches; with fewer slots of their own, a context that was set for all of them too."""
    names = _NAMES.get(change.knob, ())
    return (*names, "context") if _context_of_fewer(change, runtime) else names


def _context_of_fewer(change: Change, runtime: Runtime) -> int:
    """The context that leaves each slot its own, where fewer slots would only share out the whole; 0 elsewhere."""
    slots, total = runtime.slots.value_or(0), runtime.context_length.value_or(0)
    set_for_all = any(flag.name == "context" for flag in spelled_flags(runtime.command.value_or([])))
    apart = isinstance(runtime.kv_unified, Known) and not runtime.kv_unified.value
    fewer = change.knob is Knob.PARALLEL and isinstance(change.value, int) and 0 < change.value < slots
    return total // slots * int(change.value or 0) if fewer and apart and set_for_all and total else 0


def restart(command: Sequence[str], change: Change, environment: Mapping[str, str]) -> str:
    """One line for a shell; variables that would set the knob again are taken away."""
    variables = variables_of(_NAMES.get(change.knob, ()), environment)
    return shlex.join([*unset(variables), *without_secrets(command)])


def _fragment(change: Change, command: Sequence[str], runtime: Runtime) -> str:
    names, words = _names(change, runtime), _words(change, runtime)
    if words:
        return shlex.join(words)
    given = [shlex.join(command[start:end]) for name, start, end, _ in spelled_flags(command) if name in names]
    variables = variables_of(names, runtime.environment.value_or({}))
    if variables and not given:
        return f"unset {' '.join(variables)}"
    return f"remove {' '.join(given) or '/'.join(_standing_in_the_way(name) for name in names)}"


def _standing_in_the_way(name: str) -> str:
    flag = FLAGS[name]
    return (flag.opposites or flag.spellings)[0]


def _words(change: Change, runtime: Runtime) -> list[str]:
    """The flags that give the knob its value; none for None, and for a switch that is on by itself."""
    if change.value is None:
        return (
            ["-ngl", MOST_LAYERS] if change.knob is Knob.GPU_LAYERS and not Options(runtime, {}).fits_by_itself else []
        )
    if change.knob is Knob.LOAD_MODE and 0 < (build_number(runtime.version) or LOAD_MODE) < LOAD_MODE:
        return _OLD_LOAD_MODES.get(str(change.value), [])
    if change.knob is Knob.PROMPT_CACHE and change.value == "swa-full":
        return ["--swa-full"]
    context = _context_of_fewer(change, runtime)
    words = [word for name in _set_by(change, runtime) for word in _flag(name, change.value)]
    return [*words, "-c", str(context)] if context else words


def _set_by(change: Change, runtime: Runtime) -> tuple[str, ...]:
    """The flags that the value goes to; no micro-batch is larger than its batch, so a small one has to grow with it."""
    names = _NAMES.get(change.knob, ())
    batch = min(_USUAL_BATCH, runtime.batch.value_or(_USUAL_BATCH))
    fits = change.knob is Knob.BATCH and isinstance(change.value, int) and change.value <= batch
    return names[:1] if change.knob in _SET_BY_FIRST or fits else names


def _flag(name: str, value: Setting) -> list[str]:
    flag = FLAGS[name]
    if flag.switch:
        return [] if value else [flag.opposites[0]]
    if name == "fit_margin" and isinstance(value, int) and value >= MIB:
        value //= MIB  # facts hold bytes, llama.cpp counts MiB; no margin is a million of these
    text = ("on" if value else "off") if isinstance(value, bool) else str(value)
    return [_spelling(name), text]


def _spelling(name: str) -> str:
    """The short flag that people write; for the fit its long one, which reads better."""
    return "--fit" if name == "fit" else FLAGS[name].spellings[0]
