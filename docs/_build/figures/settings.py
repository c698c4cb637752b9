"""Questions about settings: gains without buying, draft models, RAM as slow VRAM, a busy GPU that is slow."""

from typing import Any

from docs._build.figures.asking import SYSTEM, Answer, cell, layers, middle, speed, table

from unslow.commands.predict import PredictRequest
from unslow.commands.predict.speeds import answer
from unslow.show.units import rate, span
from unslow.think.speed.report import SpeculativeShown

_OWNED, _OWN_CARD, _OWN_DEPTH = "qwen3-14b", "RTX 3060", 16_384
_CHANGES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("baseline: Q6_K, f16 cache, 16,384 tokens of context", "Q6_K", {}),
    ("flash attention off", "Q6_K", {"flash_attention": False}),
    ("cache in q8_0", "Q6_K", {"kv_type": "q8_0"}),
    ("half the context", "Q6_K", {"depth": 8192}),
    ("Q4_K_M", "Q4_K_M", {}),
    ("Q4_K_M and cache in q8_0", "Q4_K_M", {"kv_type": "q8_0"}),
    ("Q4_K_M, q8_0, half the context", "Q4_K_M", {"kv_type": "q8_0", "depth": 8192}),
)
_DRAFTED = (
    ("qwen3-32b", "qwen3-0.6b", "RTX 3090"), ("qwen3-32b", "qwen3-0.6b", "M4 Max 64GB"),
    ("llama-3.3-70b", "llama-3.2-1b", "2x RTX 3090"), ("qwen3-8b", "qwen3-0.6b", "RTX 4090"),
    ("qwen3-30b-a3b", "qwen3-0.6b", "RTX 4090"),
)  # fmt: skip
_RAMS = {"RAM at 40 GB/s": 40e9, "RAM at 80 GB/s": 80e9, "RAM at 250 GB/s": 250e9}
"""Two channels of DDR4, two and eight of DDR5: about four fifths of what their names promise."""


def without_buying() -> Answer:
    """What can be gained without buying."""
    rows = [_changed(*change) for change in _CHANGES]
    before, after = (_speed(*_CHANGES[n][1:]).speed for n in (0, -2))
    gain = after.decode_tokens_per_s.mid / before.decode_tokens_per_s.mid
    words = (
        f"Much, if the model spills to RAM: on an {_OWN_CARD} with 12 GB, a 14B model becomes {gain:.1f} times as "
        "fast with a smaller quant and a smaller KV cache, because it then fits. If it already fits, a smaller quant "
        "gains what it saves in bytes, and little else helps; first check whether anything is wrong."
    )
    head = (f"{_OWNED} on an {_OWN_CARD}", "GPU layers", "decode", "prefill", "first token, 512")
    return Answer(words, table(head, rows))


def _speed(quant: str, settings: dict[str, Any]) -> Any:
    return speed(_OWNED, _OWN_CARD, quant, **{"depth": _OWN_DEPTH, **settings})


def _changed(what: str, quant: str, settings: dict[str, Any]) -> tuple[str, ...]:
    found, every = _speed(quant, settings), layers(_OWNED)
    held = every if found.fits == "whole" else found.speed.gpu_layers
    prompts, first = found.speed.prefill_tokens_per_s.mid, found.speed.first_token_s.mid
    return what, f"{held} of {every}", rate(found.speed.decode_tokens_per_s.mid), rate(prompts), span(first)


def speculative() -> Answer:
    """Does speculative decoding help."""
    rows = [_drafted(*case) for case in _DRAFTED]
    good, poor = (_with_draft(*_DRAFTED[0], share) for share in (0.8, 0.4))
    words = (
        "Yes, for a large dense model with a high acceptance rate: a 32B model on an RTX 3090 becomes "
        f"{good.speedup:.2f} times as fast if 80 % of the draft tokens are accepted, and {poor.speedup:.2f} "
        "times at 40 %. Small models and mixtures of experts have less to gain, and below the break-even it is "
        "slower than without."
    )
    head = ("model", "draft", "device", "without", "40 % accepted", "60 %", "80 %", "breaks even at")
    return Answer(words, table(head, rows))


def _drafted(name: str, draft: str, device: str) -> tuple[str, ...]:
    found = [_with_draft(name, draft, device, share) for share in (0.4, 0.6, 0.8)]
    even = found[0].break_even_acceptance
    rates = (f"{rate(one.tokens_per_s.mid)} ({one.speedup:.2f}×)" for one in found)
    return name, draft, device, rate(middle(name, device)), *rates, "never" if even is None else f"{even:.0%}"


def _with_draft(name: str, draft: str, device: str, share: float) -> SpeculativeShown:
    flags = {"model": name, "quant": "Q4_K_M", "devices": [device], "draft": draft, "acceptance": share}
    found = answer(SYSTEM, PredictRequest.from_flags(flags)).speculative
    if found is None:
        raise SystemExit(f"no draft is predicted for {name} on {device}")
    return found


def ram_as_vram() -> Answer:
    """Can RAM serve as slow VRAM."""
    name, card = "qwen3-32b", "RTX 4090"
    every = layers(name)
    counts = [every, every - 4, every * 3 // 4, every // 2, every // 4, 0]
    rows = [
        (f"{n} of {every}", *(rate(middle(name, card, gpu_layers=n, ram_bandwidth=b)) for b in _RAMS.values()))
        for n in counts
    ]
    whole, half = (middle(name, card, gpu_layers=n, ram_bandwidth=80e9) for n in (every, every // 2))
    sparse = middle("gpt-oss-120b", card, None, ram_bandwidth=80e9)
    words = (
        f"Yes, but it costs far more than the share in RAM: {rate(whole)} tokens per second become {rate(half)} with "
        "half of a 32B model in fast desktop RAM, because the CPU computes those layers at the speed of RAM. A "
        "mixture of experts is the exception, because a token reads only a few of them: gpt-oss-120b reaches about "
        f"{rate(sparse)} with its experts in RAM beside a 24 GB card."
    )
    return Answer(words, table((f"layers of {name} on an {card}", *_RAMS), rows))


def busy_and_slow() -> Answer:
    """Why 100 % GPU and still slow."""
    name, cards = "llama-3.1-8b", ("RTX 3060", "RTX 4090")
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("an empty context", {}),
        ("8,192 tokens in the context", {"depth": 8192}),
        ("32,768 tokens", {"depth": 32_768}),
        ("32,768 tokens, cache in q8_0", {"depth": 32_768, "kv_type": "q8_0"}),
        ("32,768 tokens, flash attention off", {"depth": 32_768, "flash_attention": False}),
        ("without CUDA graphs", {"graphs": False}),
        ("one of 4 requests at once", {"batch": 4}),
    )
    full = middle(name, cards[0], depth=32_768) / middle(name, cards[0])
    words = (
        "`100% GPU` says where memory was allocated, and nothing about speed: with 32,768 tokens in the context, an "
        f"8B model on an {cards[0]} reaches {full:.0%} of its speed with an empty one. Nor does that column show low "
        "clocks, other programs on the card, a long prompt, a queue, or a driver that pages to RAM without the "
        "runtime noticing."
    )
    rows = [(what, *(_each(name, card, flags) for card in cards)) for what, flags in cases]
    return Answer(words, table((name, *cards), rows))


def _each(name: str, card: str, flags: dict[str, Any]) -> str:
    found = speed(name, card, **flags)
    return rate(found.speed.each_tokens_per_s.mid) if found.fits == "whole" else cell(found)
