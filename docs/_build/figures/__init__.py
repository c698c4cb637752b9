"""The questions that people ask, each answered by the program itself: what docs/questions says is computed here."""

from collections.abc import Callable, Iterator

from docs._build.figures import daily, machines, settings, sizes
from docs._build.figures.asking import Answer

from unslow.think.memo import one_judgement

QUESTIONS: dict[str, Callable[[], Answer]] = {
    "how_slow_is_too_slow": daily.how_slow,
    "what_to_expect": daily.what_to_expect,
    "slow_prompts": daily.slow_prompt,
    "gpu_busy_and_slow": settings.busy_and_slow,
    "without_buying": settings.without_buying,
    "second_gpu": machines.second_gpu,
    "sixteen_or_24_gb": machines.sixteen_or_24,
    "mac_or_pc": machines.mac_or_pc,
    "cpu_or_gpu": machines.cpu_or_gpu,
    "will_it_fit": sizes.will_it_fit,
    "how_many_layers": sizes.why_58_layers,
    "ram_as_vram": settings.ram_as_vram,
    "total_or_active": sizes.total_or_active,
    "small_or_medium_quant": sizes.small_or_medium,
    "speculative_decoding": settings.speculative,
}
"""By the name of the page."""


def answers() -> Iterator[tuple[str, Answer]]:
    """Every page with its answer."""
    with one_judgement():
        for name, question in QUESTIONS.items():
            yield name, question()
