from unslow.facts.runtime import ALL_LAYERS
from unslow.facts.values import Absence, Known, Origin
from unslow.look.logs.lm_studio import LmStudioReader

LOG = """\
 [LM Studio] GPU Configuration:
  Strategy: evenly
  Disabled GPUs: []
  Limit weight offload to dedicated GPU Memory: OFF
  Offload KV Cache to GPU: OFF
 [LM Studio] Live GPU memory info (source 'LMS Core'):
  GPU 0: NVIDIA GeForce RTX 3080 (Used: 2.67 GB, Total: 21.47 GB, Free: 18.80 GB)
  GPU 1: NVIDIA GeForce RTX 3060 (Used: 0.50 GB, Total: 12.88 GB, Free: 12.38 GB)
 [LM Studio] Model load size estimate with raw num offload layers 'max' and context length '16384':
  Model: 416.56 GB
  Context: 20.84 GB
  Total: 437.40 GB
[LM Studio] Strict GPU VRAM cap is OFF: GPU offload layers will not be checked for adjustment
 [LM Studio] Resolved GPU config options:
  Num Offload Layers: max
  Num CPU Expert Layers: 71
  Main GPU: 0
  Tensor Split: [0.6, 0.4]
LlamaV4::load config: n_parallel=1 n_ctx=16384 kv_unified=false
"""


def read(text: str) -> LmStudioReader:
    reader = LmStudioReader()
    for number, line in enumerate(text.split("\n"), 1):
        reader.take(line, f"log:{number}")
    return reader


def test_lm_studio_load_settings_are_parsed():
    seen = read(LOG).log_facts("log")
    runtime = seen.subject.runtime
    assert runtime.name == Known("LM Studio", Origin.REPORTED, "log:1")
    assert runtime.cache.offload == Known(value=False, origin=Origin.REPORTED, source="log:5")
    assert runtime.placement.gpu_layers_set.need() == ALL_LAYERS
    assert runtime.placement.tensor_overrides.need() == ["--n-cpu-moe 71"]
    assert (runtime.placement.main_gpu.need(), runtime.placement.tensor_split.need()) == (0, [0.6, 0.4])
    assert (runtime.context.requested.need(), runtime.context.length.need(), runtime.scheduling.slots.need()) == (
        16384,
        16384,
        1,
    )
    assert runtime.memory.asked_bytes == Known(437_400_000_000, Origin.ESTIMATED, "log:12")
    assert runtime.memory.available_bytes.need() == 31_180_000_000
    assert [gpu.name.need() for gpu in seen.machine.gpus.need()] == [
        "NVIDIA GeForce RTX 3080",
        "NVIDIA GeForce RTX 3060",
    ]


def test_lm_studio_layer_count_and_zero_expert_layers_are_parsed():
    text = " [LM Studio] Resolved GPU config options:\n  Num Offload Layers: 54\n  Num CPU Expert Layers: 0\n"
    runtime = read(text).log_facts("log").subject.runtime
    assert (runtime.placement.gpu_layers_set.need(), runtime.placement.tensor_overrides.need()) == (54, [])


def test_lm_studio_lines_without_its_header_are_ignored():
    reader = read("Total: 437.40 GB\nMain GPU: 3\nNum Offload Layers: 5\n")
    assert reader.log_facts("log").lines == 0
    assert reader.log_facts("log").subject.runtime.name.absence is Absence.NOT_LOOKED


def test_lm_studio_server_lines_name_the_runtime():
    assert (
        read("[2026-02-13 15:39:24][INFO][LM STUDIO SERVER] Running chat").log_facts("log").subject.runtime.name.need()
    )
