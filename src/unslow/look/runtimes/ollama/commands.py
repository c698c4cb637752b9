"""The commands of Ollama: variables of its service, parameters of a model, and advice for what is neither.

A parameter holds for one chat (`/set parameter`), one request (`"options": {...}`) or one model, by a Modelfile: the
model at hand stays as it is, and whoever wants the new settings asks for the new name. A variable holds for the whole
server, which must be started again; in a client's shell it does nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from unslow.facts.commands import WINDOWS, Commands, Place, by_hand, labelled_line, shell_quoted
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.values import MIB, Known, reported_fact
from unslow.look import command_writer as writer
from unslow.look.command_line import is_absolute_path
from unslow.look.command_writer import NOTHING_AT_HAND, PLACE, Advice, AtHand, ChangeRequest
from unslow.look.command_writer.starters import COMPOSE_UP
from unslow.look.runtimes.ollama import places
from unslow.look.runtimes.ollama.places import derived_name, home_of, is_at_least, variables_set, word_of

SINCE: Mapping[str, tuple[int, ...]] = {
    "OLLAMA_FLASH_ATTENTION": (0, 1, 39),
    "OLLAMA_NUM_PARALLEL": (0, 1, 34),
    "OLLAMA_MAX_LOADED_MODELS": (0, 1, 34),
    "OLLAMA_KEEP_ALIVE": (0, 1, 39),
    "OLLAMA_SCHED_SPREAD": (0, 1, 45),
    "OLLAMA_GPU_OVERHEAD": (0, 3, 10),
    "OLLAMA_KV_CACHE_TYPE": (0, 5, 0),
    "draft_num_predict": (0, 30),
    "LLAMA_ARG_": (0, 30),  # since then it runs llama-server, which inherits its environment
}
"""The release that first had each, by envconfig/config.go and api/types.go of every release."""
_CACHE_TYPES = ("f16", "q8_0", "q4_0")
_SERVER_CONTEXT = (0, 5, 13)  # The release that first read OLLAMA_CONTEXT_LENGTH
ALL_LAYERS = 999  # More than any model has: a negative number leaves it to Ollama
_MAPPED = {"none": "false", "mmap": "true"}
_USUAL_DRAFT = 4
_MODEL = "MODEL"
_UNTHINKING = (labelled_line(Place.CHAT, "/set nothink"), labelled_line(Place.REQUEST, '"think": false'))
_NAMELESS = (
    "write a file Modelfile whose first line is FROM and the model: its name in `ollama list`, or the path of its GGUF"
    " file; no name of it was checked"
)


class Put(NamedTuple):
    """What a change comes to."""

    parameters: Mapping[str, Setting] = {}
    variables: Mapping[str, str | None] = {}
    base: str = ""  # What the model is made from; empty for the one at hand
    short: tuple[str, ...] = ()  # Other ways to have it, for one request or for every model
    missing: str = ""  # What the reader has to fill in first


_Answer = Put | Advice | str
_Turn = Callable[[Setting, ChangeRequest], _Answer]


def commands_for(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING_AT_HAND) -> Commands:
    """The service's variables first, then the model that has the parameters."""
    turns = {knob: _of_version(turn) for knob, turn in _TURNS.items()}
    puts, advice, left = writer.answer_changes("Ollama", turns, changes, runtime, at_hand)
    short: list[str] = []
    for put in puts:
        # for one chat or request; where a value is to be filled in, for a model too, which then has no whole file
        ways = 3 if put.missing else 2
        short += [line for name, value in put.parameters.items() for line in places.option(name, value)[:ways]]
        short += put.short
    turned = [put for put in puts if not put.missing]
    there = runtime.process.environment.value_or({})
    variables = {name: value for put in turned for name, value in put.variables.items()}
    needed = {name: value for name, value in variables.items() if value is not None or name in there}
    lines = (*variables_set(needed, _in_unit(runtime, at_hand)), *_model_lines(turned, runtime, at_hand))
    if not lines:
        return Commands(lines=(*short, *advice), left_out=left, environment=needed)
    return Commands(tuple(short), (*lines, *advice), left, environment=needed)


def _of_version(turn: _Turn) -> _Turn:
    """The turn, or why the version at hand cannot have what it puts in."""

    def turn_if_able(value: Setting, wanted: ChangeRequest) -> _Answer:
        put = turn(value, wanted)
        if not isinstance(put, Put):
            return put
        for name in (*put.parameters, *(name for name, value in put.variables.items() if value is not None)):
            since = next((version for start, version in SINCE.items() if name.startswith(start)), (0,))
            if not is_at_least(wanted.runtime, since):
                at = wanted.runtime.version.value_or("")
                return f"Ollama {at} does not read {name}, which came with {'.'.join(map(str, since))}"
        return put

    return turn_if_able


def _in_unit(runtime: Runtime, at_hand: AtHand) -> Runtime:
    """The server with the service that starts it, where only the one who looked knows which."""
    if not at_hand.unit.name or isinstance(runtime.process.unit, Known):
        return runtime
    return runtime.with_facts(unit=reported_fact(at_hand.unit.words, "its control group"))


def _model_lines(turned: Sequence[Put], runtime: Runtime, at_hand: AtHand) -> tuple[str, ...]:
    """A model of its own where there is something that only a model can have; another one by its name needs none."""
    parameters = {name: value for put in turned for name, value in put.parameters.items()}
    lines = [f"PARAMETER {name} {value}" for name, value in parameters.items()]
    chosen = next((put.base for put in turned if put.base), "")
    own = at_hand.model.name.value_or("")
    is_file = chosen.lower().endswith(".gguf")
    instead = f" in place of {own}" if own else ""
    if not parameters and not is_file:
        return (by_hand(f"ask for the model {chosen}{instead}"),) if chosen else ()
    if not chosen and not own:
        return (
            by_hand(_NAMELESS),
            *(labelled_line(Place.MODELFILE, line) for line in lines),
            f"ollama create {derived_name('model')} -f Modelfile",
        )
    name = derived_name(own or chosen)
    system = WINDOWS if home_of(runtime) == "windows" else ""
    modelfile = "\n".join([f"FROM {' '.join((chosen or own).split())}", *lines])  # all else is inherited from the model
    return (
        labelled_line(Place.WHOLE_MODELFILE, modelfile),
        f"ollama create {shell_quoted(name, system)} -f Modelfile",
        by_hand(f"ask for the model {name}{'' if is_file else instead}"),
    )


def _parameter(name: str, by_itself: int | None = None) -> _Turn:
    """A parameter of a model; a derived one inherits its parent's, so that only a value can take one away."""

    def turn(value: Setting, _wanted: ChangeRequest) -> _Answer:
        if value is None:
            unset = f"a derived model can't remove {name} from its parent"
            return unset if by_itself is None else Put({name: by_itself})
        return Put({name: value}) if writer.is_integer(value) else f"{value!r} is not a value of {name}"

    return turn


def _variable(name: str) -> _Turn:
    return lambda value, _wanted: Put(variables={name: None if value is None else word_of(value)})


def _name(wanted: ChangeRequest) -> str:
    return wanted.at_hand.model.name.value_or("") or _MODEL


def _model_file(value: Setting, wanted: ChangeRequest) -> _Answer:
    name = str(value or "")
    if name in wanted.at_hand.listed or (is_absolute_path(name) and name.lower().endswith(".gguf")):
        return Put(base=name)
    return f"{name} is neither a file on this machine nor a model that Ollama lists"


def _quant(value: Setting, wanted: ChangeRequest) -> _Answer:
    """Tags of one model are its quants; which there are, its page says."""
    if Knob.MODEL_FILE in wanted.changes:
        return Put()
    name = _name(wanted).partition(":")[0].replace(_MODEL, "NAME")
    kind = f"with {value}" if value else "of a smaller quant, or of a smaller model"
    which = by_hand(f"TAG is the tag {kind} on the model's page at ollama.com/library")
    return Advice([f"ollama pull {shell_quoted(f'{name}:TAG')}", which], f"no model or file {kind} is known")


def _context(value: Setting, wanted: ChangeRequest) -> _Answer:
    """Ollama means the tokens of one request, and multiplies them by the requests that may run together."""
    slots = wanted.changes.get(Knob.PARALLEL) or wanted.runtime.scheduling.slots.value_or(1)
    if value is not None and (not writer.is_integer(value) or not value):
        return f"{value!r} is not a number of tokens"
    tokens = PLACE if value is None else int(value) // max(1, int(slots))
    for_all = variables_set({"OLLAMA_CONTEXT_LENGTH": str(tokens)}, _in_unit(wanted.runtime, wanted.at_hand))
    short = tuple(for_all) if is_at_least(wanted.runtime, _SERVER_CONTEXT) else ()
    return Put({"num_ctx": tokens}, short=short, missing=writer.NO_NUMBER if value is None else "")


def _margin(value: Setting, wanted: ChangeRequest) -> _Answer:
    """What stays free on each GPU: MiB for llama-server, bytes for Ollama's own estimates before."""
    if not writer.is_integer(value):
        return f"{value!r} is not a number of bytes"
    size = value
    if is_at_least(wanted.runtime, SINCE["LLAMA_ARG_"]):
        return Put(variables={"LLAMA_ARG_FIT_TARGET": str(size // MIB if size >= MIB else size)})
    return Put(variables={"OLLAMA_GPU_OVERHEAD": str(size if size >= MIB else size * MIB)})


def _cache_type(value: Setting, wanted: ChangeRequest) -> _Answer:
    """One type for keys and values of all models; before 0.30 flash attention, which it needs, is off by itself."""
    if value not in _CACHE_TYPES:
        return f"Ollama supports only these KV cache types: {', '.join(_CACHE_TYPES)}"
    if value != "f16" and wanted.changes.get(Knob.FLASH_ATTENTION, True) is False:
        return "a quantized KV cache needs flash attention, which this change turns off"
    told = re.match(r"v?\d", wanted.runtime.version.value_or(""))
    on = value == "f16" or (told and is_at_least(wanted.runtime, SINCE["LLAMA_ARG_"]))
    return Put(variables={"OLLAMA_KV_CACHE_TYPE": str(value), **({} if on else {"OLLAMA_FLASH_ATTENTION": "1"})})


def _keep_alive(value: Setting, wanted: ChangeRequest) -> _Answer:
    """What a request says goes before the variable; None leaves it out of requests."""
    if value is None:
        line = labelled_line(Place.REQUEST, 'no "keep_alive", or a time such as "keep_alive": "30m"')
        return Advice([line], "the client's requests set keep_alive, which overrides the server's")
    # a variable of 0 is what every client suffers from
    is_variable = wanted.runtime.scheduling.keep_alive_s.value_or(None) == 0
    short = () if is_variable else (labelled_line(Place.REQUEST, f'"keep_alive": {value}'),)
    return Put(variables={"OLLAMA_KEEP_ALIVE": str(value)}, short=short)


def _split(value: Setting, wanted: ChangeRequest) -> _Answer:
    if value == "none":
        return Put({"main_gpu": wanted.changes.get(Knob.MAIN_GPU, wanted.runtime.placement.main_gpu.value_or(0))})
    if value == "layer":
        return Put(variables={"OLLAMA_SCHED_SPREAD": "1"})
    return Put(variables={"LLAMA_ARG_SPLIT_MODE": None if value is None else str(value)})


def _drafting(value: Setting, _wanted: ChangeRequest) -> _Answer:
    if not value or value == "none":
        return Put({"draft_num_predict": 0})
    if value in ("draft-mtp", True, writer.DRAFT_PLACE):
        return Put({"draft_num_predict": _USUAL_DRAFT})
    return Put({"draft_num_predict": value}) if writer.is_integer(value) else "Ollama takes no separate draft model"


def _device(value: Setting, wanted: ChangeRequest) -> _Answer:
    if value is None:
        hiding = next((name for name in places.HIDES if name in wanted.runtime.process.environment.value_or({})), "")
        return Put(variables={hiding: None}) if hiding else "the variable that hides the device is unknown"
    chosen = places.visible_device(value, wanted.runtime)
    return Put(variables=dict([chosen])) if chosen else f"{value!r} is not a device"


def _version(value: Setting, wanted: ChangeRequest) -> _Answer:
    tag = str(value).removeprefix("v") if value else ""
    image = f"ollama/ollama:{tag or 'latest'}"
    match home_of(wanted.runtime):
        case "container":
            return Advice([f"docker pull {image}"])
        case "compose":
            return Advice([labelled_line(Place.COMPOSE, f"image: {image}"), COMPOSE_UP])
        case "pod":
            return Advice([labelled_line(Place.MANIFEST, f"image: {image}"), "kubectl apply -f FILE"])
        case "windows" | "mac":
            where = f"https://github.com/ollama/ollama/releases/tag/v{tag}" if tag else "https://ollama.com/download"
            return Advice([by_hand(f"install it from {where}")])
    return Advice([f"curl -fsSL https://ollama.com/install.sh | {f'OLLAMA_VERSION={tag} ' if tag else ''}sh"])


_TURNS: Mapping[Knob, _Turn] = {
    Knob.MODEL_FILE: _model_file,
    Knob.QUANT: _quant,
    Knob.CONTEXT_LENGTH: _context,
    Knob.GPU_LAYERS: lambda value, wanted: _parameter("num_gpu")(
        -1 if value is None else ALL_LAYERS if value == -1 else value, wanted
    ),
    # on unless something stops it: a number of layers, or a variable of llama-server
    Knob.FIT: lambda value, wanted: (
        Put(variables={"LLAMA_ARG_FIT": "off"})
        if value is False
        else Put({} if Knob.GPU_LAYERS in wanted.changes else {"num_gpu": -1}, {"LLAMA_ARG_FIT": None})
    ),
    Knob.FIT_MARGIN: _margin,
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.VALUE_CACHE_TYPE: lambda value, wanted: (
        Put()
        if value == wanted.changes.get(Knob.KV_CACHE_TYPE, wanted.runtime.cache.type_k.value_or("f16"))
        else "Ollama has one type for keys and values"
    ),
    Knob.FLASH_ATTENTION: lambda value, _wanted: Put(
        variables={"OLLAMA_FLASH_ATTENTION": None if value is None else word_of(bool(value))}
    ),
    Knob.PARALLEL: _variable("OLLAMA_NUM_PARALLEL"),
    Knob.LOADED_MODELS: _variable("OLLAMA_MAX_LOADED_MODELS"),
    Knob.KEEP_ALIVE: _keep_alive,
    Knob.BATCH: _parameter("num_batch"),
    Knob.LOGICAL_BATCH: lambda value, wanted: (
        Put()
        if value == wanted.changes.get(Knob.BATCH, wanted.runtime.compute.ubatch.value_or(0))
        else "Ollama has one size for both batches"
    ),
    Knob.THREADS: _parameter("num_thread", by_itself=0),
    Knob.SAMPLER: _parameter("top_k"),
    Knob.MAIN_GPU: _parameter("main_gpu"),
    Knob.SPLIT_MODE: _split,
    Knob.TENSOR_SPLIT: _variable("LLAMA_ARG_TENSOR_SPLIT"),
    Knob.TENSOR_OVERRIDE: _variable("LLAMA_ARG_OVERRIDE_TENSOR"),
    Knob.EXPERTS_ON_CPU: _variable("LLAMA_ARG_N_CPU_MOE"),
    Knob.KV_OFFLOAD: lambda value, _wanted: Put(variables={"LLAMA_ARG_KV_OFFLOAD": "0" if value is False else None}),
    Knob.NUMA: _variable("LLAMA_ARG_NUMA"),
    Knob.LOAD_MODE: lambda value, _wanted: (
        Put({"use_mmap": _MAPPED[str(value)]}) if value in _MAPPED else f"Ollama has no load mode {value}"
    ),
    Knob.SPECULATIVE: _drafting,
    Knob.DEVICE: _device,
    Knob.GPU_BACKEND: lambda value, wanted: Advice(places.backend_lines(value, wanted.runtime)),
    # layers are placed when a model is loaded, and not again
    Knob.OTHER_PROCESS: lambda _value, wanted: Advice(
        [f"ollama stop {shell_quoted(_name(wanted))}", f"ollama run {shell_quoted(_name(wanted))}"]
    ),
    Knob.VERSION: _version,
    Knob.THINKING: lambda _value, wanted: Advice(
        [f"ollama run {shell_quoted(_name(wanted))} --think=false", *_UNTHINKING]
    ),
}
