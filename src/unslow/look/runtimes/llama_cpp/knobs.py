"""How llama-server spells each knob: the flag, and the whole command line to start it again with."""

import re
import shlex
from collections.abc import Mapping, Sequence

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.look.command_line import taken_out, unset
from unslow.look.llama_server.arguments import spelled_flags, without_secrets
from unslow.look.llama_server.flags import FLAGS
from unslow.look.llama_server.options import Options
from unslow.look.runtimes.llama_cpp.words import Wanted, Words, words_of

_GRAPHS_OFF = "GGML_CUDA_DISABLE_GRAPHS"
_FEWER = "-ngl N, with fewer layers than now: builds before b7407 do not fit them by themselves"
_UNTHINKING = ["--reasoning-budget 0", labelled(Place.REQUEST, '"chat_template_kwargs": {"enable_thinking": false}')]
_NATIVE = (
    "in llama.cpp's source, on this machine: cmake -B build -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release && "
    "cmake --build build --target llama-server -j"
)
_HANDED_ON = {"CUDA": "--gpus all", "ROCm": "--device /dev/kfd --device /dev/dri"}
_CLOSED = re.compile(r"(?i)permission|/dev/kfd|no ROCm-capable device")
"""What ROCm says where it may not open the device."""


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type, from the shortest to the whole command where that is known; [] where there is nothing to type."""
    if change.knob is Knob.FIT and change.value is not False and not Options(runtime, {}).fits_by_itself:
        return [labelled(Place.HAND, _FEWER)]
    command, environment = runtime.command.value_or([]), runtime.environment.value_or({})
    flags = spelled_flags(command)
    given = {flag.name: flag.value for flag in flags}
    answer = words_of(change, Wanted({change.knob: change.value}, given, Options(runtime, {}), runtime))
    if answer is None or change.knob in (Knob.QUANT, Knob.GRAPHS):
        return _outside_the_flags(change, runtime)
    if isinstance(answer, str):
        return []
    places = [(flag.start, flag.end) for flag in flags if flag.name in answer.names]
    variables = variables_of(answer.names, environment)
    if command and not answer.words and not places and not variables:
        return []
    taken = [shlex.join(command[start:end]) for start, end in places]
    again = shlex.join([*unset(variables), *without_secrets([*taken_out(command, places), *answer.words])])
    return [_fragment(answer, taken, variables), *([again] if command else [])]


def _fragment(words: Words, taken: Sequence[str], variables: Sequence[str]) -> str:
    """The words to put in; where there are none, what stands in the way."""
    if words.words:
        return shlex.join(words.words)
    if variables and not taken:
        return f"unset {' '.join(variables)}"
    return f"remove {' '.join(taken) or '/'.join(_standing_in_the_way(name) for name in words.names)}"


def _standing_in_the_way(name: str) -> str:
    flag = FLAGS[name]
    return (flag.opposites or flag.spellings)[0]


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
