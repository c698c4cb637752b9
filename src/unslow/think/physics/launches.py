"""Launches that a processor makes one by one while the GPU works: whichever of the two takes longer sets the pace.

With recorded graphs (CUDA graphs) launches cost next to nothing and are part of what a layer costs on the GPU.
"""

from typing import NamedTuple

from unslow.think.physics.terms import Number

LAUNCHED_ONE_BY_ONE = "launches one by one"
_SHARPNESS = 3.0
"""How nearly the longer of the two is all that counts: 1 is the sum of both, infinity the longer one alone."""


class Launching(NamedTuple):
    """What a runtime's own work costs on the processor."""

    layer_s: float
    expert_layer_s: float
    step_s: float


PLAIN = Launching(62e-6, 25e-6, 450e-6)
"""llama.cpp without CUDA graphs: lab/data/h200_speed_learning.jsonl, section d, on one 16-core host."""
EAGER = Launching(720e-6, 700e-6, 1e-3)
"""Transformers in eager mode: the same, section j; a host with slower cores takes 1.4 times as long."""
SERVED = Launching(550e-6, 250e-6, 0.7e-3)
"""vLLM and its kin in eager mode, between a slow and a fast host: 22 and 19 ms a token for 28 and 24 layers, of which
the GPU needs 13 and 6 (https://github.com/vllm-project/vllm-omni/issues/7960); 14.2 ms for the 32 of Llama 3 8B on an
H200, of which it needs 5 (tests/machines/vllm_0_26_h200_eager). Their experts are one operation for all of a layer."""


def launch_s(how: Launching, layers: Number, expert_layers: Number) -> Number:
    """Seconds that the processor needs for the launches of a step."""
    return how.layer_s * layers + how.expert_layer_s * expert_layers + how.step_s


def overlapped(gpu_s: Number, host_s: Number) -> Number:
    """The time of a step of which the GPU and the processor each do their part at the same time."""
    return (gpu_s**_SHARPNESS + host_s**_SHARPNESS) ** (1 / _SHARPNESS)
