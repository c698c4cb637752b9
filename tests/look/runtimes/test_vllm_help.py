"""Flags read and printed for vLLM, against the help output of a real vLLM."""

from pathlib import Path

import pytest

from unslow.facts.knob import Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.command_writer import AtHand
from unslow.look.runtimes.vllm.commands import commands_for
from unslow.look.runtimes.vllm.flags import FLAGS

HELP = frozenset(Path(__file__).with_name("vllm_help_0_32.txt").read_text().splitlines()[1:])
GONE = {"--swap-space", "--device", "--speculative-model", "--num-speculative-tokens"}
"""Of older versions, which are read and never printed for this one."""
OTHERWISE = {
    "-O",
    "-O0",
    "--attention-config.backend",
    "-ac.backend",
    "--kv-cache-memory",
    "--model-tag",
    "--compilation-config.cudagraph-mode",
    "-cc.cudagraph_mode",
    "-O.cudagraph_mode",
}
"""Values that stick to a flag, fields of a flag that takes JSON, a short form, and what it calls the model inside."""
SETTINGS: list[tuple[Knob, Setting]] = [
    (Knob.MEMORY_SHARE, 0.9),
    (Knob.CONTEXT_LENGTH, 4096),
    (Knob.PARALLEL, 8),
    (Knob.BATCH, 2048),
    (Knob.KV_CACHE_TYPE, "fp8"),
    (Knob.GRAPHS, False),
    (Knob.PROMPT_CACHE, True),
    (Knob.PROMPT_CACHE, False),
    (Knob.WEIGHTS_TYPE, "bfloat16"),
    (Knob.ATTENTION, "FLASHINFER"),
    (Knob.FLASH_ATTENTION, False),
    (Knob.SPLIT_MODE, 2),
    (Knob.SPLIT_MODE, "layer 2"),
    (Knob.QUANT, "fp8"),
    (Knob.SPECULATIVE, "org/draft"),
]


def test_every_flag_that_is_read_exists_or_is_listed_as_removed():
    read = {spelling for flag in FLAGS.values() for spelling in flag.spellings}
    assert read - HELP == GONE | OTHERWISE


@pytest.mark.parametrize(("knob", "value"), SETTINGS)
def test_every_flag_that_is_printed_exists(knob: Knob, value: Setting):
    runtime = Runtime().with_facts(
        version=reported_fact("0.32.0", "test"), command=reported_fact(["vllm", "serve", "m"], "test")
    )
    spelled = commands_for([knob.to(value)], runtime, AtHand(listed=("org/draft",)))
    flags = [word for word in spelled.argv[3:] if word.startswith("-")]
    assert flags
    assert set(flags) <= HELP
