"""How long a slider of the page takes: random settings of models on a card of 24 GB, each asked for the first time.

Run it from the repository: `python -m benchmarks.what_if`. It prints the median and the worst of each model.
"""

import argparse
import random
import statistics
import time

from unslow.commands.fit import FitRequest
from unslow.facts.values import Unknown
from unslow.look.system.live import LiveSystem
from unslow.page.what_if import Memory, memory_for

MODELS = ("llama-3.1-8b", "llama-3.3-70b", "gpt-oss-120b")
DEVICE = "RTX 4090"
RAM_BYTES = 128 * 2**30


def main() -> None:
    """Time each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("| model | made in | median | 95th of 100 | worst | worst by the processor's clock |")
    print("|---|--:|--:|--:|--:|--:|")
    for model in arguments.models:
        print(_row(model, arguments.times, random.Random(arguments.seed)), flush=True)


def _row(model: str, times: int, chance: random.Random) -> str:
    begun = time.perf_counter()
    memory = memory_for(LiveSystem(), FitRequest(model=model, devices=(DEVICE,), ram_bytes=RAM_BYTES))
    if isinstance(memory, Unknown):
        return f"| {model} | {memory.why} | | | | |"
    made = time.perf_counter() - begun
    timed = [_timed(memory, settings) for settings in _settings(memory, times, chance)]
    walls, clocks = sorted(wall for wall, _ in timed), [clock for _, clock in timed]
    figures = (made, statistics.median(walls), walls[int(0.95 * len(walls))], walls[-1], max(clocks))
    return f"| {model} | {' | '.join(f'{1000 * seconds:.0f} ms' for seconds in figures)} |"


def _settings(memory: Memory, times: int, chance: random.Random) -> list[dict[str, str]]:
    """Random places of all sliders, each combination once."""
    sliders = memory.view().sliders
    asked: dict[tuple[str, ...], dict[str, str]] = {}
    for _ in range(20 * times):
        places = {str(slider.knob): chance.choice(slider.choices).value for slider in sliders}
        asked.setdefault(tuple(places.values()), places)
        if len(asked) == times:
            break
    return list(asked.values())


def _timed(memory: Memory, settings: dict[str, str]) -> tuple[float, float]:
    wall, clock = time.perf_counter(), time.process_time()
    memory.what_if(settings)
    return time.perf_counter() - wall, time.process_time() - clock


if __name__ == "__main__":
    main()
