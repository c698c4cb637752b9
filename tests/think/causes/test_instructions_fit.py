"""What a cause asks for can be had on the machine and the runtime at hand, wherever that is."""

import re

import pytest
from all_firing import FIRING
from answers import ask
from cases import r, with_facts
from tools import strangers

from unslow.catalog.questions import ReadingWay, readings
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known, Unknown
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import CannotTell

IDS = list(all_causes())
SILENT = Unknown("blanked by a test")
"""Without advice of its own, so that the cause has to give some."""
PLACES = [
    ("Linux", "NVIDIA", "NVIDIA GeForce RTX 4090", "llama.cpp"),
    ("Linux", "AMD", "AMD Radeon RX 7900 XTX", "Ollama"),
    ("Linux", "NVIDIA", "NVIDIA H200", "vLLM"),
    ("Linux", "NVIDIA", "NVIDIA GeForce RTX 3090", "Transformers"),
    ("Linux", "AMD", "AMD Instinct MI300X", "SGLang"),
    ("Linux", "Intel", "Intel Arc A770", "llama.cpp"),
    ("macOS 15", "Apple", "Apple M2 Max", "Ollama"),
    ("macOS 15", "Apple", "Apple M2 Max", "MLX-LM"),
    ("macOS 15", "Apple", "Apple M1 Pro", "LM Studio"),
    ("Windows 11", "NVIDIA", "NVIDIA GeForce RTX 4060", "Ollama"),
    ("Windows 11", "AMD", "AMD Radeon RX 7900 XTX", "LM Studio"),
    ("Windows 11", "NVIDIA", "NVIDIA GeForce RTX 4060", "KoboldCpp"),
]


def moved(case: Case, place: tuple[str, str, str, str]) -> Case:
    """The case in another place: what it reads is the same, its system, its GPUs' maker and its runtime are not."""
    system, vendor, gpu, runtime = place
    case = with_facts(
        case, {"machine.system.name": system, "runtime.name": runtime, "runtime.placement.devices": SILENT}
    )
    count = len(case.machine.gpus.value) if isinstance(case.machine.gpus, Known) else 0
    for i in range(count):
        case = with_facts(case, {f"machine.gpus.{i}.vendor": vendor, f"machine.gpus.{i}.name": gpu})
    return case


def blanked(case: Case, *paths: str) -> Case:
    for path in paths:
        _, _, rest = path.partition("machine.gpus.0")
        if rest and not case.machine.gpus.value_or(()):
            continue
        case = with_facts(case, {path: SILENT})
    return case


def lacking(name: str, case: Case):
    """The answers of a cause when each of its needs is missing, and each fact of them alone."""
    cause = all_causes()[name]
    groups = [(need,) if isinstance(need, str) else need for need in cause.needs]
    for paths in [*groups, *((path,) for group in groups for path in group)]:
        answer = ask(name, blanked(case, *paths))
        if isinstance(answer, CannotTell):
            yield paths, answer


@pytest.mark.no_cover  # hundreds of answers of the same lines
@pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p[3]}-{p[1]}-{p[0].split()[0]}")
@pytest.mark.parametrize("name", IDS)
def test_it_asks_for_nothing_that_is_not_there(name, place):
    system, vendor, _, runtime = place
    case = moved(FIRING[name](), place)
    has_gpu = bool(case.machine.gpus.value_or(()))
    for paths, answer in lacking(name, case):
        advice = answer.how_to_get
        assert advice, (paths, answer)
        assert "{" not in re.sub(r"-d '\{.*?\}'|%\{time_total\}", "", advice), advice
        found = strangers(
            advice,
            system="" if "machine.system.name" in paths and "machine.gpus" in paths else system.split()[0],
            makers=frozenset({vendor} if has_gpu and "machine.gpus" not in paths else ()),
            runtime="" if "runtime.name" in paths else runtime,
        )
        assert not found, (paths, advice)


@pytest.mark.parametrize("name", IDS)
def test_with_nothing_known_it_still_says_what_to_look_at(name):
    answer = ask(name, Case())
    assert isinstance(answer, CannotTell), answer
    assert re.search(r"`.+`|the same request|the whole text|first token", answer.how_to_get), answer.how_to_get


def test_every_reading_that_is_named_is_there_and_ends_with_a_way_for_all():
    for name, ways in readings().items():
        last = ways[-1]
        assert last == ReadingWay(last.does), name
        for named in re.findall(r"\{([a-z_]+)\}", " ".join(way.does for way in ways)):
            assert named in readings() or named == "time_total", (name, named)


def test_a_reading_in_words_of_the_case():
    mac = Case(machine=with_gpu("Apple M2 Max"))
    assert (
        CaseView(mac).system.spell_out("look: {gpu_state}")
        == "look: `sudo powermetrics --samplers gpu_power,thermal -n 3`"
    )
    assert "nvidia-smi" in CaseView(Case()).system.spell_out("{gpu_state}")
    assert CaseView(mac).system.spell_out("{no_such_reading}") == "{no_such_reading}"


def with_gpu(name: str):
    case = with_facts(Case(), {"machine.gpus": (Gpu(index=0, name=r(name), vram_total_bytes=r(8 * GIB)),)})
    return case.machine
