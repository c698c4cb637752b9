"""How long a slider of the page takes: random settings of models on a card of 24 GB, each asked for the first time.

Run it from the repository: `python -m benchmarks.what_if`. It prints the median and the worst of each model.
"""

import argparse
import random
import statistics
import time

from unslow.commands._hardware import find_memory
from unslow.commands.fit import FitRequest
from unslow.commands.fit.gguf import find_setup, lines_of
from unslow.commands.models.find import find_shape
from unslow.commands.plan import PlanRequest
from unslow.commands.plan.gguf import planned_hardware
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.look.system.live import LiveSystem
from unslow.page.what_if import gguf_memory
from unslow.page.what_if.gguf import GgufAnswers, PricedWork, Subject, asked_now
from unslow.page.what_if.hf import HfSubject, hf_memory
from unslow.page.what_if.memory_view import AskedSettings, Memory
from unslow.page.what_if.running import startable_cache_types
from unslow.think.hardware import Hardware
from unslow.think.memo import one_judgement
from unslow.think.memory.llama_cpp.hyperparameters import Settings, hyper_of
from unslow.think.setup import Setup

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


def named_subject(system: System, request: FitRequest) -> Subject | Unknown:
    """The subject; UserError where there is no such model or device, or llama.cpp would not start so."""
    request, found, setup = find_setup(system, request)
    if not setup.hardware.rooms and setup.hardware.host_room is None:
        return Unknown("how much memory the host has is not known", "say so: --ram 64GB")
    now, notes = asked_now(found, setup), setup.hardware.memory_notes
    hardware = _with_speed(system, request, setup)
    experts = request.n_cpu_moe if hyper_of(found.blueprint).experts else 0

    def command(asked: AskedSettings, settings: Settings) -> str:
        return "\n".join(lines_of(request, found._replace(requantised=asked.quant != now.quant), settings))

    return Subject(
        found,
        setup._replace(hardware=hardware) if hardware else setup,
        now,
        priced=PricedWork(hardware.processors.cores, whole_first=experts) if hardware else None,
        unified=bool(request.kv_unified) and request.runtime != "ollama",
        command=command,
        notes=(*found.notes, *notes),
    )


def _with_speed(system: System, request: FitRequest, setup: Setup) -> Hardware | None:
    """The hardware with its speed; None where nobody knows that, or where single tensors are moved."""
    if request.override_tensor:
        return None
    try:
        asked = PlanRequest(model=request.model, devices=request.devices, ram_bytes=request.ram_bytes)
        hardware = planned_hardware(system, asked, setup.blueprint)
    except UserError:  # a memory of a size alone has no speed
        return None
    if isinstance(hardware, Unknown) or len(hardware.rooms) != len(setup.hardware.rooms):
        return None
    return hardware._replace(rooms=setup.hardware.rooms, host_room=setup.hardware.host_room, pinned=False)


def memory_for(system: System, request: FitRequest) -> Memory | Unknown:
    """Of a model on a device, as `unslow fit` is asked for it; UserError where there is no such thing."""
    if request.runtime in ("vllm", "transformers"):
        shape = find_shape(system, request.model, request.quant, request.runtime)
        hardware = find_memory(system, request.devices, request.ram_bytes)
        return hf_memory(HfSubject(request, shape, hardware, ((),) * len(hardware.rooms)))
    with one_judgement():
        subject = named_subject(system, request)
    if isinstance(subject, Unknown):
        return subject
    answers = GgufAnswers(subject)
    kinds = startable_cache_types(subject.found, subject.base, ("F16", "Q8_0", "Q4_0"))
    return gguf_memory(answers, answers.answer(subject.now), subject.source, kinds)


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
    sliders = memory.view.sliders
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
