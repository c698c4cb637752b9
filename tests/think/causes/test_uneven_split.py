from answers import ask
from cases import gpu_case, with_facts
from several_gpus import two_gpus

from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent
from unslow.think.judge.judge import judge

NAME = "uneven_split"
UNLIKE = ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060")


def fires():
    return two_gpus(
        names=UNLIKE, held=(1.0, 3.6), **{"run.decode_tokens_per_s": 40.0, "runtime.placement.split_mode": "layer"}
    )


def test_most_of_the_model_on_the_slow_card_is_found(wording):
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="3.6 GiB")
    assert finding.fixes[0].value == "1,0"
    assert finding.speedup > 1.4
    assert finding.fixes[0].predicted["decode_tokens_per_s"] > 1.4 * 40


def test_fast_card_without_free_memory_is_ruled_out():
    assert isinstance(ask(NAME, two_gpus(names=UNLIKE, held=(3.6, 1.0), free=(0.1, 20.0))), Absent)


def test_equal_cards_are_ruled_out():
    assert isinstance(ask(NAME, two_gpus(held=(1.0, 3.6))), Absent)


def test_one_card_or_a_row_split_is_ruled_out():
    assert isinstance(ask(NAME, gpu_case()), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.placement.split_mode": "row"})), Absent)


def test_fixed_split_that_leaves_layers_on_the_cpu_is_found():
    facts = {
        "runtime.placement.tensor_split": [1.0, 1.0],
        "runtime.placement.gpu_layers": 20,
        "run.decode_tokens_per_s": 10.0,
    }
    assert NAME in [f.cause for f in judge(CaseView(two_gpus(**facts))).findings]


def test_integrated_gpu_that_holds_nothing_is_not_counted():
    held = [Buffer(device="CUDA0", kind="model", bytes=4 * GIB, on_gpu=True)]
    unknown = {"machine.gpus.1.name": "Intel UHD Graphics 770", "machine.gpus.1.vram_free_bytes": not_found("shared")}
    assert isinstance(ask(NAME, with_facts(two_gpus(), {"runtime.memory.buffers": held, **unknown})), Absent)
