"""What else a text says of a run: context, users, layers on the GPU, the kind of speed."""

import re
from typing import NamedTuple

from unslow.think.claims.amounts import number
from unslow.think.claims.phrases import any_of

ALL_LAYERS = 9999
_FEWEST_TOKENS = 64
"""What is less is no context."""
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
_DEEP = any_of(
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
_PLACED = any_of(
    "on (?:the |a |your |its )?(?:gpu|card|rtx|vram|_+)", r"offload\w*", "in vram", "to (?:the )?gpu", "pinned",
    r"fit\w*", r"spill\w*", "native", "ngl", "leaves?", "headroom", r"on (?:a )?\d{1,3} ?gb",
)  # fmt: skip
_PREFILL = any_of(
    r"prefill\w*", r"prompt[ -](?:processing|eval\w*|speed|ingestion|tokens)", r"pp\d{2,5}", r"ingest\w*",
    "input tokens", r"process(?:es|ing)? (?:the|a|its|\S+k?) ?(?:token )?prompts?", r"prompt in \d",
)  # fmt: skip
_ALL_STREAMS = any_of(
    r"aggregat\w*", "total throughput", "combined", "batched", "in total", "all users", "throughput (?:across|of)",
    "continuous batching", "serving",
)  # fmt: skip
_GUESSING = any_of(
    "speculative", "speculation", r"draft\w*", "mtp", "multi-token", r"eagle\w*", "medusa", "lookahead", "n-gram",
    r"spec-\w+", r"\w*dflash",
)  # fmt: skip
_LIMIT = any_of(
    r"theoretical\w*", "ceiling", "maximum", "max", "at most", "limit", "upper bound", "would allow", "allows?", "caps?"
)
_BY_LAYER = any_of("layer split", "split by layers?", r"pipeline parallel\w*", "sm layer", "split-mode layer")


class Settings(NamedTuple):
    """The settings of one sentence."""

    context: int = 0
    deep: bool = False
    """Whether the context is said to be filled."""
    users: int = 0
    gpu_layers: int | None = None
    layers_named: int | None = None
    """How many layers the model is said to have."""
    prefill: bool = False
    all_streams: bool = False
    guessing: bool = False
    limit: bool = False
    """Whether the speed is said to be what bandwidth would allow."""
    by_layer: bool = False


def settings_said(text: str, whole: str) -> Settings:
    """The settings of a plain sentence, given once without its names and once as a whole."""
    on_gpu, named = _layers(text)
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


def _layers(text: str) -> tuple[int | None, int | None]:
    """Layers on the GPU, and layers in all."""
    if match := _LAYERS_OF.search(text):
        return int(match[1] or match[3]), int(match[2] or match[4])
    if flag := _GPU_LAYERS.search(text):
        return ALL_LAYERS if flag[1] == "all" else int(flag[1]), None
    plain = _LAYERS.search(text)
    if not plain:
        return None, None
    return (int(plain[1]), None) if _PLACED.search(text) else (None, int(plain[1]))
