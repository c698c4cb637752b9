"""A sentence with all that it names, and which of it belongs to which number."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

from unslow.think.claims.amounts import SAME_LENGTH, Amount, amounts, any_phrase, number
from unslow.think.claims.devices import ON_CPU, DeviceSaid, Host, devices_said, host_said
from unslow.think.claims.models import ModelSaid, QuantSaid, models_said, quants_said

ALL_LAYERS = 9999
Role = Literal["device", "host", "layer", "cache", "room", "weights", "need", "other"]
_CLAUSE = re.compile(r"[,;]\s|\.\s|\s(?:and|but|vs\.?|versus|while|whereas|against)\s")


class Settings(NamedTuple):
    """The settings of one sentence."""

    context: int = 0
    deep: bool = False  # Whether the context is said to be filled
    users: int = 0
    gpu_layers: int | None = None
    layers_named: int | None = None  # How many layers the model is said to have
    prefill: bool = False
    all_streams: bool = False
    guessing: bool = False
    limit: bool = False  # Whether the speed is said to be what bandwidth would allow
    by_layer: bool = False


Placed = TypeVar("Placed", ModelSaid, QuantSaid, DeviceSaid)


class SentenceReading(NamedTuple):
    """What one sentence says; `text` is plain, with the names of models and devices blanked in `rest`."""

    original: str
    text: str
    rest: str
    amounts: tuple[Amount, ...]
    models: tuple[ModelSaid, ...]
    quants: tuple[QuantSaid, ...]
    cache_quants: tuple[QuantSaid, ...]
    devices: tuple[DeviceSaid, ...]
    settings: Settings
    host: Host | None
    on_cpu: bool
    carried: tuple[str, ...] = ()  # What was taken from an earlier sentence

    def model_at(self, place: int) -> ModelSaid | None:
        """The model that a number at this place belongs to."""
        return _belonging(self.models, place, self.text)

    def quant_at(self, place: int) -> QuantSaid | None:
        """The quant, likewise."""
        return _belonging(self.quants, place, self.text)

    def device_at(self, place: int) -> DeviceSaid | None:
        """The device, likewise."""
        return _belonging(self.devices, place, self.text)

    @property
    def cache_type(self) -> str:
        """The type of the KV cache, where it is named."""
        return self.cache_quants[0].label if self.cache_quants else ""


def parse_sentence(original: str) -> SentenceReading:
    """All that a sentence names."""
    text = original.translate(SAME_LENGTH)  # small letters, one form of each sign, and every letter stays where it is
    numbers = amounts(text)
    devices, quants = devices_said(text, original, numbers), quants_said(text)
    models = [m for m in models_said(text) if not any(d.start <= m.start < d.end for d in devices)]
    rest, host = text, host_said(text)
    names: list[ModelSaid | DeviceSaid] = [*models, *(device for device in devices if " or " not in device.label)]
    for name in names:
        rest = rest[: name.start] + "_" * (name.end - name.start) + rest[name.end :]
    return SentenceReading(
        original=original,
        text=text,
        rest=rest,
        amounts=tuple(numbers),
        models=tuple(models),
        quants=tuple(q for q in quants if not q.of_cache),
        cache_quants=tuple(q for q in quants if q.of_cache),
        devices=tuple(devices),
        settings=_settings_said(rest, text),
        host=host,
        on_cpu=not devices and bool(host or ON_CPU.search(text)),
    )


def with_earlier(said: SentenceReading, earlier: SentenceReading | None) -> SentenceReading:
    """The sentence with the model, quant and device of the one before where it names none."""
    if earlier is None:
        return said
    taken: dict[str, tuple[ModelSaid, ...] | tuple[QuantSaid, ...] | tuple[DeviceSaid, ...]] = {}
    several = sum(a.kind == "speed" for a in said.amounts) > 1  # a row of speeds has a model for each
    if not said.models and earlier.models and not several:
        taken["models"] = earlier.models[-1:]
        if not said.quants:
            taken["quants"] = earlier.quants[-1:]
    if not said.devices and not said.on_cpu and earlier.devices:
        taken["devices"] = earlier.devices[-1:]
    labels = tuple(one.label for many in taken.values() for one in many)
    return said._replace(**taken, carried=labels)  # type: ignore[arg-type]


def _belonging(named: Sequence[Placed], place: int, text: str) -> Placed | None:
    """What the clause of the number names, else the last before it, else the first after it."""
    starts = [m.end() for m in _CLAUSE.finditer(text, 0, place)]
    end = _CLAUSE.search(text, place)
    inside = [n for n in named if (starts[-1] if starts else 0) <= n.start < (end.start() if end else len(text))]
    before = [n for n in inside or named if n.start <= place]
    return before[-1] if before else next(iter(inside or named), None)


_FEWEST_TOKENS = 64  # What is less is no context
_K = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,9}(?:\.\d)?)\s?(k\b|m\b)?"
_OTHER_UNIT = r"(?![,.]?\d)(?!\s?(?:gb|gib|mb|ms|s\b|tok\w*\s?(?:/|per|a\s)|layers|%))"
_CONTEXTS = (
    re.compile(
        r"(?:\b(?:context|ctx|n_ctx|num_ctx|depth|window|max_model_len|--ctx-size|prompt)|(?<!\w)-c)"
        rf"(?:\s(?:length|size|window))?(?:\sof|\sat|\s?[=:])?\s?~?{_K}{_OTHER_UNIT}"
    ),
    re.compile(
        rf"(?<![\w.,]){_K}(?:-\d+k?)?[\s-](?:tokens?\s(?:of\s)?|token[\s-])?(?:context|ctx|prompt|window|depth|deep)\b"
    ),
    re.compile(r"(?<![\w.,])(\d{1,4})(k)(?!\w)(?!\s?(?:tok\w*\s?(?:/|per|a\s)|vocab|users|t/s|\$|-?\d|[a-z]*\svocab))"),
)
_DEEP = any_phrase(
    "depth", "deep", "filled", "full context", "in (?:the |its )?context", "prompt of", "token prompt", "long prompt",
    "k prompt",
)  # fmt: skip
_USERS = re.compile(
    r"(\d{1,6})\s(?:\w+\s)?(?:users|requests|streams|clients|sequences|sessions|slots|people|conversations)\b"
    r"|\bbatch(?:\ssize)?(?:\sof|=|:)?\s?(\d{1,6})\b|(?:concurrency|parallel|users|requests)(?:\sof|:|=)?\s?(\d{1,6})\b"
)
_LAYERS_OF = re.compile(
    r"(\d{1,3})\s?(?:/|of(?:\s(?:its|the|all))?|out of)\s?(\d{1,3})\s(?:\w+\s)?(?:layers|blocks)\b"
    r"|offloaded\s(\d{1,3})/(\d{1,3})"
)
_GPU_LAYERS = re.compile(
    r"(?:(?<!\w)-ngl|--n-gpu-layers|--gpu-layers|num_gpu|n_gpu_layers|gpu layers)(?:\sof|\s?[=:])?\s?(\d{1,4}|all)\b"
)
_LAYERS = re.compile(r"(?<![\w.,/])(\d{1,3})(?:\s?-\s?(\d{1,3}))?\s(?:\w+\s)?(?:layers|blocks)\b")
_PLACED = any_phrase(
    "on (?:the |a |your |its )?(?:gpu|card|rtx|vram|_+)", r"offload\w*", "in vram", "to (?:the )?gpu", "pinned",
    r"fit\w*", r"spill\w*", "native", "ngl", "leaves?", "headroom", r"on (?:a )?\d{1,3} ?gb",
)  # fmt: skip
_PREFILL = any_phrase(
    r"prefill\w*", r"prompt[ -](?:processing|eval\w*|speed|ingestion|tokens)", r"pp\d{2,5}", r"ingest\w*",
    "input tokens", r"process(?:es|ing)? (?:the|a|its|\S+k?) ?(?:token )?prompts?", r"prompt in \d",
)  # fmt: skip
_ALL_STREAMS = any_phrase(
    r"aggregat\w*", "total throughput", "combined", "batched", "in total", "all users", "throughput (?:across|of)",
    "continuous batching", "serving",
)  # fmt: skip
_GUESSING = any_phrase(
    "speculative", "speculation", r"draft\w*", "mtp", "multi-token", r"eagle\w*", "medusa", "lookahead", "n-gram",
    r"spec-\w+", r"\w*dflash",
)  # fmt: skip
_LIMIT = any_phrase(
    r"theoretical\w*", "ceiling", "maximum", "max", "at most", "limit", "upper bound", "would allow", "allows?", "caps?"
)
_BY_LAYER = any_phrase("layer split", "split by layers?", r"pipeline parallel\w*", "sm layer", "split-mode layer")


def _settings_said(text: str, whole: str) -> Settings:
    """The settings of a plain sentence, given once without its names and once as a whole."""
    on_gpu, named = None, None
    if match := _LAYERS_OF.search(text):
        on_gpu, named = int(match[1] or match[3]), int(match[2] or match[4])
    elif flag := _GPU_LAYERS.search(text):
        on_gpu = ALL_LAYERS if flag[1] == "all" else int(flag[1])
    elif plain := _LAYERS.search(text):
        on_gpu, named = (int(plain[1]), None) if _PLACED.search(text) else (None, int(plain[1]))
    users = _USERS.search(text)
    return Settings(
        context=next(iter(contexts_said(text)), 0),
        deep=bool(_DEEP.search(text)),
        users=int(next(g for g in users.groups() if g)) if users else 0,
        gpu_layers=on_gpu,
        layers_named=named,
        prefill=bool(_PREFILL.search(text)),
        all_streams=bool(_ALL_STREAMS.search(text)),
        guessing=bool(_GUESSING.search(whole)),
        limit=bool(_LIMIT.search(text)),
        by_layer=bool(_BY_LAYER.search(text)),
    )


def contexts_said(text: str) -> list[int]:
    """The lengths of context, in tokens; 32K is 32 times 1024."""
    found: dict[int, int] = {}
    for pattern in _CONTEXTS:
        for match in pattern.finditer(text):
            unit = {"k": 1024, "m": 1024**2}.get((match[2] or "").strip(), 1)
            tokens = int(number(match[1]) * unit)
            if tokens >= _FEWEST_TOKENS:
                found.setdefault(match.start(1), tokens)
    return [found[at] for at in sorted(found)]


_AROUND = 48
_PER_LAYER = re.compile(r"\s?(?:/|per|a|each|for each|for every)\s?(?:\w+\s)?layer\b")
_CACHE = any_phrase("kv", "cache", "keys and values")
_ELSE_NEAR = any_phrase("l[123]", "sram", "activations?", "overhead", "driver", "headroom")
_ELSE_AFTER = re.compile(r"\s?(?:spilled|short|over\b|left|free|headroom)")
_ELSE_BEFORE = re.compile(r"\b(?:spills?|offload\w*|leaves?)\s\S{0,3}$")
_HOST = re.compile(r"\s?(?:of\s)?(?:system\s|host\s|cpu\s)?(?:ram\b|ddr\d|main memory)")
_ROOM_BEFORE = re.compile(
    r"\b(?:fits?|fitting|in(?:to|side)?|within|on|with|for|across)(?:\s(?:an?|the|its|your|only|just|one|single|of|two|~))*\s?~?$"
)
_ROOM_AFTER = re.compile(
    r"[\s-](?:\w+\s)?(?:cards?|gpus?|graphics|macs?|machine|laptop|is (?:enough|plenty|sufficient))\b"
    r"|\s?(?:-|:)\s*_|\s(?:can|could) (?:run|hold|load|fit)"
)
_NEED_BEFORE = re.compile(
    r"\b(?:needs?|requires?|takes?|uses?|wants?|demands?|consumes?|occup\w+|asks? for|minimum|at least)\b[^,;]{0,24}$"
)
_WEIGHTS = any_phrase("weights?", "files?", "gguf", "download", "on disk", "weighs?", "reads?", "streams?", "per token")
_MEMORY = any_phrase("v?ram", "memory")


def role_of(said: SentenceReading, amount: Amount) -> Role:
    """The role of a size, from the device that it stands in, else from the words around it."""
    holder = next((d for d in said.devices if d.start <= amount.start and amount.end <= d.end), None)
    if holder:
        return "room" if holder.is_class else "device"
    before = said.rest[max(0, amount.start - _AROUND) : amount.start]
    after = said.rest[amount.end : amount.end + _AROUND]
    clause = re.split(r"[,;]\s", before)[-1] + " # " + re.split(r"[,;]\s", after)[0]
    about_weights, only_one = bool(_WEIGHTS.search(clause)), sum(a.kind == "size" for a in said.amounts) == 1
    elsewhere = _ELSE_NEAR.search(clause) or _ELSE_AFTER.match(after) or _ELSE_BEFORE.search(before)
    roles: tuple[tuple[object, Role], ...] = (
        (_PER_LAYER.match(after), "layer"),
        (elsewhere, "other"),
        (_CACHE.search(clause) or (only_one and _CACHE.search(said.rest)), "cache"),
        (_HOST.match(after), "host"),
        (_NEED_BEFORE.search(before), "weights" if about_weights else "need"),
        (_ROOM_BEFORE.search(before) or _ROOM_AFTER.match(after), "room"),
        (_MEMORY.search(clause) and not about_weights, "need"),
    )
    return next((role for holds, role in roles if holds), "weights")
