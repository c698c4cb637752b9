"""Everyday questions: is that slow, what speed to expect, why is prefill slow and decode fast."""

from docs._build.figures.asking import Answer, cell, ends, middle, speed, table

from unslow.show.units import rate, span

_READING_WORDS_PER_MINUTE = 238
"""Adults, silently, English non-fiction: M. Brysbaert, Journal of Memory and Language 109 (2019), 104047."""
_TOKENS_PER_WORD = 4 / 3
"""Of English text with the tokenizers of today, about."""
READING = _READING_WORDS_PER_MINUTE / 60 * _TOKENS_PER_WORD
DEVICES = (
    "RTX 3060", "RTX 4060 Ti 16GB", "RTX 3090", "RTX 4090", "RTX 5090", "RX 7900 XTX", "M4 Pro 48GB", "M4 Max 64GB",
    "Strix Halo",
)  # fmt: skip
_DAILY = "qwen3-8b"
_ANSWER, _THINKING = 500, 2000


def how_slow() -> Answer:
    """How slow is too slow."""
    words = (
        f"Too slow for you is below reading speed, about {READING:.0f} tokens per second; a model that thinks before "
        "it answers must be several times as fast. Too slow for your hardware is below the low end of the expected "
        f"interval: an RTX 3060 that generates {READING:.0f} tokens per second with an 8B model is fast enough to "
        f"read along, but something is wrong, because it should reach {rate(middle(_DAILY, 'RTX 3060'))}."
    )
    head = (
        "device",
        "expected",
        "suspect below",
        f"an answer of {_ANSWER}",
        f"the same after {_THINKING:,} of thinking",
    )
    return Answer(words, table(head, [_patience(name) for name in DEVICES]))


def _patience(device: str) -> tuple[str, ...]:
    found = speed(_DAILY, device).speed.decode_tokens_per_s
    waits = (span(tokens / found.mid) for tokens in (_ANSWER, _ANSWER + _THINKING))
    return device, rate(found.mid), rate(found.low), *waits


def what_to_expect() -> Answer:
    """What tokens per second to expect."""
    models = ("qwen3-8b", "gpt-oss-20b", "qwen3-32b", "qwen3-30b-a3b", "llama-3.3-70b")
    first, last = (middle("qwen3-8b", name) for name in ("RTX 3060", "RTX 5090"))
    words = (
        "About the memory bandwidth divided by the bytes that a token reads, less the overhead of every layer: an 8B "
        f"model in four bits reaches about {rate(first)} tokens per second on an RTX 3060, and about {rate(last)} on "
        "an RTX 5090. A dense model that does not fit on the card drops to a fraction of that, because host memory "
        "then sets the pace; a mixture of experts drops less."
    )
    rows = [(name, *(cell(speed(m, name, _quant(m))) for m in models)) for name in DEVICES]
    return Answer(words, table(("device", *models), rows))


def _quant(name: str) -> str | None:
    return None if name.startswith("gpt-oss") else "Q4_K_M"


def slow_prompt() -> Answer:
    """Why prefill is slow and decode is fast."""
    mac, card = (speed(_DAILY, name).speed for name in ("M4 Max 64GB", "RTX 4090"))
    reads = card.prefill_tokens_per_s.mid / mac.prefill_tokens_per_s.mid
    writes = card.decode_tokens_per_s.mid / mac.decode_tokens_per_s.mid
    words = (
        "They have different limits: prefill reads the prompt many tokens at a time and is limited by arithmetic, "
        "decode generates one token at a time and is limited by memory bandwidth. A device can be good at one and "
        f"bad at the other: an RTX 4090 decodes {writes:.1f} times as fast as an M4 Max, and its prefill is "
        f"{reads:.0f} times as fast."
    )
    names = ("RTX 3060", "RTX 3090", "RTX 4090", "RX 7900 XTX", "M4 Pro 48GB", "M4 Max 64GB", "Strix Halo")
    rows = [_reading(name, "qwen3-8b") for name in names] + [_reading("RTX 4090", "llama-3.3-70b")]
    head = ("device", "model", "decode", "prefill", "80 %", "first token, 512", "8,192", "32,000")
    return Answer(words, table(head, rows))


def _reading(device: str, name: str) -> tuple[str, ...]:
    found = [speed(name, device, prompt=prompt) for prompt in (512, 8192, 32_000)]
    prompts = found[0].speed.prefill_tokens_per_s
    waits = (span(one.speed.first_token_s.mid) for one in found)
    return device, name, cell(found[0]), rate(prompts.mid), ends(prompts), *waits
