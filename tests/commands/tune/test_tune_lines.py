"""Candidates as command lines, parsed back by llama-server's own parser."""

import pytest

from unslow.commands.tune.search import line_of
from unslow.facts.knob import Knob
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.system.live import LiveSystem
from unslow.think.stats.tuning_candidates import Candidate, Settings, as_changes

SYSTEM = LiveSystem()
PROGRAM, MODEL = "/opt/none/llama-server", "/models/a model.gguf"
OVERRIDE = r"blk\.(0|1)\.(ffn_up\.weight|ffn_down\.weight)=CPU"


def given(settings: Settings) -> dict[str, str]:
    line = line_of(SYSTEM, Candidate("it", "neighbour", as_changes(settings)), MODEL, PROGRAM)
    assert not line.why_not
    assert line.words[:3] == (PROGRAM, "-m", MODEL)
    return {name: setting.value for name, setting in parse_settings(line.words, {}).items()}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({Knob.CONTEXT_LENGTH: 8192}, {"context": "8192"}),
        ({Knob.FIT: False, Knob.GPU_LAYERS: 20}, {"fit": "off", "gpu_layers": "20"}),
        ({Knob.GPU_LAYERS: 33, Knob.TENSOR_OVERRIDE: OVERRIDE}, {"gpu_layers": "33", "override": OVERRIDE}),
        ({Knob.EXPERTS_ON_CPU: 12}, {"n_cpu_moe": "12"}),
        (
            {Knob.KV_CACHE_TYPE: "q8_0", Knob.FLASH_ATTENTION: True},
            {"kv_type_k": "q8_0", "kv_type_v": "q8_0", "flash_attention": "on"},
        ),
        ({Knob.BATCH: 256, Knob.THREADS: 7}, {"ubatch": "256", "threads": "7"}),
        ({Knob.BATCH: 4096}, {"ubatch": "4096", "batch": "4096"}),
        ({Knob.SPECULATIVE: "/models/draft.gguf"}, {"draft_model": "/models/draft.gguf", "draft_type": "draft-simple"}),
        ({Knob.LOAD_MODE: "none"}, {"load_mode": "none"}),
    ],
)
def test_command_line_parses_back_to_the_settings(settings, told):
    assert given(settings) == {"model": MODEL, **told}


def test_default_candidate_is_program_and_model():
    assert line_of(SYSTEM, Candidate("it", "default", ()), MODEL, PROGRAM).words == (PROGRAM, "-m", MODEL)


def test_setting_without_a_flag_is_not_started():
    line = line_of(SYSTEM, Candidate("it", "option", as_changes({Knob.KV_CACHE_TYPE: "q9_9"})), MODEL, PROGRAM)
    assert line.why_not.startswith("kv_cache_type: ")
