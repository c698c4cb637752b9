"""What people ask every day: is that slow, what is to be expected, why is the prompt slow and not the answer."""

from docs.figures.asking import Answer, cell, ends, middle, speed, table

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
        f"Too slow for you is below reading pace, about {READING:.0f} tokens per second; a model that thinks before "
        "it answers has to be several times as fast. Too slow for your hardware is below the low end of what physics "
        f"and measurements expect of it: an RTX 3060 that generates {READING:.0f} tokens per second with an 8B model "
        "is fast enough to read along, and something is wrong, for it should give "
        f"{rate(middle(_DAILY, 'RTX 3060'))}."
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
        "About the bandwidth of the memory divided by the bytes that a token reads, less what every layer costs "
        f"beside that: an 8B model in four bits gives about {rate(first)} tokens per second on an RTX 3060, and about "
        f"{rate(last)} on an RTX 5090. A dense model that does not fit the card falls to a small part of that, "
        "because the host's memory then sets the pace; one with experts falls less."
    )
    rows = [(name, *(cell(speed(m, name, _quant(m))) for m in models)) for name in DEVICES]
    return Answer(words, table(("device", *models), rows))


def _quant(name: str) -> str | None:
    return None if name.startswith("gpt-oss") else "Q4_K_M"


def slow_prompt() -> Answer:
    """Why prompts are slow and answers are fast."""
    mac, card = (speed(_DAILY, name).speed for name in ("M4 Max 64GB", "RTX 4090"))
    reads = card.prefill_tokens_per_s.mid / mac.prefill_tokens_per_s.mid
    writes = card.decode_tokens_per_s.mid / mac.decode_tokens_per_s.mid
    words = (
        "They hit different walls: a prompt is read many tokens at a time and is bound by arithmetic, an answer is "
        "written one token at a time and is bound by memory. So a device can be good at one and poor at the other: "
        f"an RTX 4090 writes {writes:.1f} times as fast as an M4 Max, and reads prompts {reads:.0f} times as fast."
    )
    names = ("RTX 3060", "RTX 3090", "RTX 4090", "RX 7900 XTX", "M4 Pro 48GB", "M4 Max 64GB", "Strix Halo")
    rows = [_reading(name, "qwen3-8b") for name in names] + [_reading("RTX 4090", "llama-3.3-70b")]
    head = ("device", "model", "answers", "prompts", "80 %", "first token of 512", "of 8,192", "of 32,000")
    return Answer(words, table(head, rows))


def _reading(device: str, name: str) -> tuple[str, ...]:
    found = [speed(name, device, prompt=prompt) for prompt in (512, 8192, 32_000)]
    prompts = found[0].speed.prefill_tokens_per_s
    waits = (span(one.speed.first_token_s.mid) for one in found)
    return device, name, cell(found[0]), rate(prompts.mid), ends(prompts), *waits
