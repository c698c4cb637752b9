"""The commands of llama-server: every knob as flags of the build at hand, and anything else as advice."""

import re
from collections.abc import Mapping, Sequence
from functools import partial

from unslow.facts.commands import Place, by_hand, labelled_line
from unslow.facts.knob import Knob, Setting
from unslow.facts.values import MIB, Known
from unslow.look import command_writer as writer
from unslow.look.command_line import Flags
from unslow.look.command_writer import Advice, Answer, ChangeRequest, Turn, Words
from unslow.look.gguf_server_flags import FLAGS, find_flags
from unslow.look.runtimes.llama_cpp.flags import Options

_MOST_LAYERS = "999"  # More than any model has, where a build has no word for all of them
_LARGEST = 2**31 - 1  # llama.cpp reads numbers as `int`
_USUAL_BATCH = 2048  # what every build takes by default
_QUANTISED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_CACHE_TYPES = ("f32", "f16", "bf16", *_QUANTISED)
_DRAFTED = "draft-simple"  # How llama-server calls guesses by a model of their own
_OLD_LOAD_MODES = {
    "mmap": (), "auto": (), "none": ("--no-mmap",), "mlock": ("--no-mmap", "--mlock"), "mmap+mlock": ("--mlock",),
    "dio": ("-dio",),
}  # fmt: skip
_WRONG = "{value!r} is not a valid value"
_FEWER = "-ngl N, with fewer layers than now: builds before b7407 do not fit them automatically"
_NATIVE = (
    "in llama.cpp's source, on this machine: cmake -B build -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release && "
    "cmake --build build --target llama-server -j"
)
_HANDED_ON = {"CUDA": "--gpus all", "ROCm": "--device /dev/kfd --device /dev/dri"}
_CLOSED = re.compile(r"(?i)permission|/dev/kfd|no ROCm-capable device")
"""What ROCm says where it may not open the device."""


def _options(wanted: ChangeRequest) -> Options:
    return Options(wanted.runtime, wanted.at_hand.options, anew=wanted.at_hand.anew)


def _given_flags(wanted: ChangeRequest) -> Mapping[str, str]:
    return {flag.name: flag.value for flag in find_flags(wanted.runtime.process.command.value_or([]))}


def _flag(wanted: ChangeRequest, names: tuple[str, ...], flag: str, *value: str) -> Answer:
    options = _options(wanted)
    return Words(names, (flag, *value)) if options.has(flag) else options.without(flag)


def _choice(wanted: ChangeRequest, names: tuple[str, ...], flag: str, value: str) -> Answer:
    options = _options(wanted)
    return Words(names, (flag, value)) if options.takes(flag, value) else options.without(flag, value)


def _number(name: str, flag: str, least: int = 1) -> Turn:
    def turn(value: Setting, wanted: ChangeRequest) -> Answer:
        if value is None:
            return Words((name,))
        if not writer.is_integer(value) or not least <= value <= _LARGEST:
            return _WRONG.format(value=value)
        return _flag(wanted, (name,), flag, str(value))

    return turn


def _text(name: str, flag: str) -> Turn:
    return lambda value, wanted: Words((name,)) if value is None else _flag(wanted, (name,), flag, str(value))


def _switch(name: str, flag: str, *, on: bool) -> Turn:

    def turn(value: Setting, wanted: ChangeRequest) -> Answer:
        is_given = bool(value) if on else value is False
        return _flag(wanted, (name,), flag) if is_given else Words((name,))

    return turn


def _layers(value: Setting, wanted: ChangeRequest) -> Answer:
    """A number of layers, or all by -1; None leaves it to the fit, where the build has one: others would take none."""
    if value is None and (wanted.changes.get(Knob.FIT) or _options(wanted).fits_by_itself):
        return Words(("gpu_layers",))
    if value is None or value == -1:
        options = _options(wanted)
        named = options.fits_by_itself and options.takes("-ngl", "all")  # a build of unknown age may not
        return Words(("gpu_layers",), ("-ngl", "all" if named else _MOST_LAYERS))
    return _number("gpu_layers", "-ngl", least=0)(value, wanted)


def _fit(value: Setting, wanted: ChangeRequest) -> Answer:
    """It places weights only where nothing else does: what stands in its way goes, unless it is asked for too."""
    if value is not False and not _options(wanted).fits_by_itself:
        return Advice([by_hand(_FEWER)], _options(wanted).without("--fit"))
    if not _options(wanted).has("--fit"):
        return Words()
    asked = {Knob.GPU_LAYERS: "gpu_layers", Knob.TENSOR_SPLIT: "tensor_split", Knob.TENSOR_OVERRIDE: "override"}
    placed = [name for knob, name in asked.items() if knob not in wanted.changes]
    experts = [] if Knob.EXPERTS_ON_CPU in wanted.changes else ["n_cpu_moe", "cpu_moe", "n_cpu_ffn"]
    away = [] if value is False else [*placed, *experts]
    if value and Knob.CONTEXT_LENGTH not in wanted.changes:
        away.append("context")  # an explicit one is never made shorter
    return Words(("fit", *away), ("--fit", "off") if value is False else ())  # it is on unless something stops it


def _overrides(value: Setting, wanted: ChangeRequest) -> Answer:
    if not value:
        return Words(("override",))
    if not isinstance(value, str) or not all(part.rpartition("=")[0] for part in value.split(",")):
        return f"{value!r} is not of the form PATTERN=DEVICE"
    return _text("override", "-ot")(value, wanted)


def _experts(value: Setting, wanted: ChangeRequest) -> Answer:
    """The experts of the first layers; builds that lack the flag take the names of their tensors."""
    names = ("n_cpu_moe", "cpu_moe", *(() if Knob.TENSOR_OVERRIDE in wanted.changes else ("override",)))
    if not value:
        return Words(names)
    if not writer.is_integer(value) or not 0 < value <= int(_MOST_LAYERS):
        return _WRONG.format(value=value)
    if _options(wanted).has("-ncmoe"):
        return Words(names, ("-ncmoe", str(value)))
    layers = "|".join(str(layer) for layer in range(value))
    pattern = rf"blk\.({layers})\.ffn_(up|down|gate)_exps=CPU"
    return Words(names, ("-ot", pattern)) if _options(wanted).has("-ot") else _options(wanted).without("-ncmoe")


def _slots(value: Setting, wanted: ChangeRequest) -> Answer:
    """Fewer slots with caches of their own would only share out the whole: a context that is set shrinks with them."""
    said, runtime = _number("slots", "-np")(value, wanted), wanted.runtime
    slots, total = runtime.scheduling.slots.value_or(0), runtime.context.length.value_or(0)
    apart = isinstance(runtime.cache.unified, Known) and not runtime.cache.unified.value
    is_set = "context" in _given_flags(wanted) and Knob.CONTEXT_LENGTH not in wanted.changes
    fewer = value if writer.is_integer(value) and 0 < value < slots else 0
    if isinstance(said, Words) and fewer and apart and is_set and total:
        return Words(("slots", "context"), (*said.words, "-c", str(total // slots * fewer)))
    return said


def _cache_type(value: Setting, wanted: ChangeRequest, *, keys: bool) -> Answer:
    """Of keys and values, unless values have a change of their own, or of values alone."""
    flags = {"kv_type_k": "-ctk"} if keys else {}
    if not keys or Knob.VALUE_CACHE_TYPE not in wanted.changes:
        flags["kv_type_v"] = "-ctv"
    if value is None:
        return Words(tuple(flags))
    if value not in _CACHE_TYPES:
        return _WRONG.format(value=value)
    words = tuple(word for flag in flags.values() for word in (flag, str(value)))
    return _with_attention(tuple(flags), words, wanted) if "kv_type_v" in flags else Words(tuple(flags), words)


def _with_attention(names: tuple[str, ...], words: tuple[str, ...], wanted: ChangeRequest) -> Answer:
    """Quantised values need flash attention: asked for where it is off, or where the build has it off by itself."""
    if words[-1] not in _QUANTISED or wanted.changes.get(Knob.FLASH_ATTENTION):
        return Words(names, words)
    if Knob.FLASH_ATTENTION in wanted.changes and wanted.changes[Knob.FLASH_ATTENTION] is False:
        return "a quantized V cache needs flash attention, which this change turns off"
    given = _given_flags(wanted).get("flash_attention", "")
    automatic = _options(wanted).takes("-fa", "on")
    if given not in ("off", "0", "false", "disabled") and (automatic or given):
        return Words(names, words)
    return Words((*names, "flash_attention"), (*words, "-fa", *(("on",) if automatic else ())))


def _attention(value: Setting, wanted: ChangeRequest) -> Answer:
    """Since b6325 with a value; before, the flag alone, and nothing for off."""
    if value is None:
        return Words(("flash_attention",))
    if _options(wanted).takes("-fa", "on"):
        return Words(("flash_attention",), ("-fa", "on" if value else "off"))
    return Words(("flash_attention",), ("-fa",) if value else ())


def _batch(value: Setting, wanted: ChangeRequest) -> Answer:
    """No micro-batch is larger than its batch, which grows with it."""
    if value is None or not writer.is_integer(value):
        return _number("ubatch", "-ub")(value, wanted)
    given = _given_flags(wanted).get("batch", "")
    logical = int(given) if given.isdecimal() else _USUAL_BATCH
    if Knob.LOGICAL_BATCH not in wanted.changes and value > logical:
        return Words(("ubatch", "batch"), ("-ub", str(value), "-b", str(value)))
    return _number("ubatch", "-ub")(value, wanted)


def _logical_batch(value: Setting, wanted: ChangeRequest) -> Answer:
    micro = wanted.changes.get(Knob.BATCH)
    most = max(value, micro) if writer.is_integer(value) and writer.is_integer(micro) and value and micro else value
    return _number("batch", "-b")(most, wanted)


def _split(value: Setting, wanted: ChangeRequest) -> Answer:
    if value is None:
        return Words(("split_mode",))
    if value not in ("none", "layer", "row", "tensor"):
        return _WRONG.format(value=value)
    return _choice(wanted, ("split_mode",), "-sm", str(value))


def _load_mode(value: Setting, wanted: ChangeRequest) -> Answer:
    names = ("load_mode", "mlock", "mmap", "direct_io")
    if value is None:
        return Words(names)
    if value not in _OLD_LOAD_MODES:
        return _WRONG.format(value=value)
    if _options(wanted).has("-lm"):
        return _choice(wanted, names, "-lm", str(value))
    words = _OLD_LOAD_MODES[str(value)]
    lacking = next((word for word in words if not _options(wanted).has(word)), "")
    return _options(wanted).without(lacking) if lacking else Words(names, words)


def _drafting(value: Setting, wanted: ChangeRequest) -> Answer:
    names = ("draft_model", "draft_repository", "draft_type", "draft_tokens")
    if not value or value == "none":
        return Words(names)
    word = str(value)
    if (missing := writer.missing_draft(word)) or word.lower().endswith(".gguf"):
        typed = _options(wanted).takes("--spec-type", _DRAFTED)  # without it, such a build loads the draft for nothing
        return Words(names, ("-md", word, *(("--spec-type", _DRAFTED) if typed else ())), missing=missing)
    return _choice(wanted, names, "--spec-type", word)


def _backend(value: Setting, wanted: ChangeRequest) -> Answer:
    """What a build needs to see the GPU: in a container the devices, elsewhere also the right to open them."""
    runtime = wanted.runtime
    if "CUDA_VISIBLE_DEVICES" in runtime.process.environment.value_or({}):
        return Words(environment={"CUDA_VISIBLE_DEVICES": None})
    handed_on = _HANDED_ON.get(str(value))
    if runtime.process.container.value_or("") and handed_on:
        image = by_hand(f"IMAGE is one that is built for {value}")
        return Advice([f"docker run {handed_on} IMAGE", image])
    closed = value == "ROCm" and _CLOSED.search(runtime.placement.gpu_refused.value_or(""))
    allowed = ["sudo usermod -a -G render,video $USER"] if closed else []
    for_it = f" for {value}" if value else ""
    return Advice([by_hand(f"install a llama.cpp build{for_it} and its driver"), *allowed])


_TURNS: Mapping[Knob, Turn] = {
    Knob.MODEL_FILE: lambda value, _wanted: (
        Words(("model", "repository", "repository_file", "model_url"), ("-m", value))
        if isinstance(value, str) and value.lower().endswith(".gguf")
        else f"{value} is not the path of a GGUF file"
    ),
    Knob.QUANT: writer.quant_by_file("-m"),
    Knob.FIT: _fit,
    # llama.cpp counts in MiB; no margin is of a few bytes, so that a small number is one of MiB already
    Knob.FIT_MARGIN: lambda value, wanted: _number("fit_margin", "-fitt", least=0)(
        value // MIB if writer.is_integer(value) and value >= MIB else value, wanted
    ),
    Knob.GPU_LAYERS: _layers,
    Knob.TENSOR_OVERRIDE: _overrides,
    Knob.EXPERTS_ON_CPU: _experts,
    Knob.DEVICE: _text("device", "-dev"),
    Knob.MAIN_GPU: _number("main_gpu", "-mg", least=0),
    Knob.SPLIT_MODE: _split,
    Knob.TENSOR_SPLIT: _text("tensor_split", "-ts"),
    Knob.CONTEXT_LENGTH: _number("context", "-c", least=0),
    Knob.PARALLEL: _slots,
    Knob.KV_UNIFIED: _switch("kv_unified", "-kvu", on=True),
    Knob.KV_CACHE_TYPE: partial(_cache_type, keys=True),
    Knob.VALUE_CACHE_TYPE: partial(_cache_type, keys=False),
    Knob.KV_OFFLOAD: _switch("kv_offload", "-nkvo", on=False),
    Knob.FLASH_ATTENTION: _attention,
    Knob.BATCH: _batch,
    Knob.LOGICAL_BATCH: _logical_batch,
    Knob.OP_OFFLOAD: _switch("op_offload", "--no-op-offload", on=False),
    Knob.THREADS: _number("threads", "-t"),
    Knob.NUMA: _text("numa", "--numa"),
    Knob.LOAD_MODE: _load_mode,
    Knob.SPECULATIVE: _drafting,
    Knob.PROMPT_CACHE: lambda value, wanted: (
        _flag(wanted, ("swa_full",), "--swa-full")
        if value == "swa-full"
        else _switch("prompt_cache", "--no-cache-prompt", on=False)(value, wanted)
    ),
    Knob.SAMPLER: _number("top_k", "--top-k", least=0),
    Knob.GRAPHS: lambda value, _wanted: Words(
        environment={"GGML_CUDA_DISABLE_GRAPHS": "1" if value is False else None}
    ),
    Knob.KEEP_ALIVE: _number("sleep_idle", "--sleep-idle-seconds", least=-1),
    Knob.GPU_BACKEND: _backend,
    Knob.OTHER_PROCESS: writer.restart(FLAGS.without_secrets),
    Knob.VERSION: lambda value, _wanted: Advice([by_hand(f"install llama.cpp {value or 'in a newer build'}")]),
    Knob.NATIVE_BUILD: writer.advice(by_hand(_NATIVE)),
    Knob.THINKING: writer.advice(
        "--reasoning-budget 0", labelled_line(Place.REQUEST, '"chat_template_kwargs": {"enable_thinking": false}')
    ),
    # of the router, whose command is another
    Knob.LOADED_MODELS: lambda value, _wanted: Advice([f"--models-max {value or 'N'}"]),
}
"""In the order in which their words stand: overrides by name come before the experts, and so win."""


def _variables(flags: Flags, names: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    known = [(variable, flags[name]) for name in names for variable in flags[name].variables]
    opposites = [variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_", 1) for variable, flag in known if flag.opposites]
    return [variable for variable in (*(v for v, _ in known), *opposites) if variable in environment]


_PROGRAM = writer.Program(
    "llama.cpp",
    _TURNS,
    FLAGS,
    bare=lambda at_hand: [
        at_hand.program or "llama-server",
        *(["-m", path] if (path := at_hand.model.path.value_or("")) else []),
    ],
    no_model="add `-m FILE`: the model file is unknown",
    model_flags=("model", "repository", "model_url", "models_folder"),
    removal=lambda flags, names, command: (
        "" if command else f"remove {'/'.join((flags[name].opposites or flags[name].spellings)[0] for name in names)}"
    ),
    variables=_variables,
    ordered=True,
)
commands_for = _PROGRAM.commands_for
