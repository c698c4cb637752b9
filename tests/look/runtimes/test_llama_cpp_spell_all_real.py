"""The spelled flags against a real llama-server: it knows each of them and takes all at once."""

import os

import pytest
from real_llama_server import NEEDED, SERVER, served

from unslow.commands._command_lines import commands_for
from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.snapshot import Case
from unslow.facts.values import MIB, reported_fact
from unslow.look.processes import read_process
from unslow.look.runtimes import llama_cpp
from unslow.look.runtimes.llama_cpp.flags import read_options
from unslow.look.system.live import LiveSystem
from unslow.think.case.view import CaseView

MODEL = os.environ.get("UNSLOW_LLAMA_MODEL", "")
pytestmark = NEEDED
CHANGES = [
    Knob.GPU_LAYERS.to(-1), Knob.EXPERTS_ON_CPU.to(2), Knob.TENSOR_OVERRIDE.to(r"blk\.0\.ffn_.*=CPU"),
    Knob.CONTEXT_LENGTH.to(1024), Knob.KV_CACHE_TYPE.to("q8_0"), Knob.VALUE_CACHE_TYPE.to("f16"),
    Knob.FLASH_ATTENTION.to(True), Knob.BATCH.to(256), Knob.LOGICAL_BATCH.to(1024), Knob.THREADS.to(2),
    Knob.PARALLEL.to(2), Knob.FIT.to(True), Knob.FIT_MARGIN.to(256 * MIB), Knob.KV_OFFLOAD.to(False),
    Knob.OP_OFFLOAD.to(False), Knob.MAIN_GPU.to(0), Knob.SPLIT_MODE.to("layer"), Knob.LOAD_MODE.to("none"),
    Knob.NUMA.to("distribute"), Knob.SAMPLER.to(20), Knob.PROMPT_CACHE.to(False),
]  # fmt: skip
AT_HAND = {"system": LiveSystem(), "program": SERVER, "name": "llama_cpp"}


def test_a_real_llama_server_knows_every_spelled_flag():
    options = read_options(LiveSystem(), SERVER)
    more = [Knob.TENSOR_SPLIT.to("3,1"), Knob.SPECULATIVE.to("/m/d.gguf"), Knob.DEVICE.to("none")]
    spelled = commands_for(
        [*CHANGES, *more], CaseView(Case(model=Model(path=reported_fact("/m/a.gguf", "x")))), **AT_HAND
    )
    assert spelled.left_out == ()
    flags = [word for word in spelled.argv[1:] if word.startswith("-")]
    assert len(flags) > len(CHANGES)
    assert set(flags) <= set(options)


@pytest.mark.skipif(not MODEL, reason="UNSLOW_LLAMA_MODEL names no model")
def test_a_real_llama_server_starts_with_all_flags_and_can_be_changed():
    spelled = commands_for(CHANGES, CaseView(Case(model=Model(path=reported_fact(MODEL, "x")))), **AT_HAND)
    assert spelled.left_out == ()
    with served(MODEL, *spelled.argv[3:]) as (_, server):
        (subject,) = llama_cpp.read(read_process(LiveSystem(), server.pid), "")
        runtime = subject.runtime
        assert (runtime.scheduling.slots.value, runtime.context.per_slot.value) == (2, 512)
        assert (runtime.cache.type_k.value, runtime.cache.type_v.value, runtime.placement.load_mode.value) == (
            "q8_0",
            "f16",
            "none",
        )
        again = commands_for(
            [Knob.LOAD_MODE.to("mmap"), Knob.PARALLEL.to(1)],
            CaseView(Case(runtime=runtime, model=subject.model)),
            system=LiveSystem(),
        )
    assert again.left_out == ()
    assert again.argv[-4:] == ("-np", "1", "-lm", "mmap")
    assert again.argv.count("-np") == again.argv.count("-lm") == 1
