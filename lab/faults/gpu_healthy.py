"""On a GPU, nothing wrong: small and large models, long contexts, neighbours that leave enough, many users."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lab.faults.fault import Fault, Playing, Stage
from lab.faults.large_models import LLAMA_1B, LLAMA_1B_BF16, LLAMA_8B, LLAMA_70B, MOE_30B, QWEN_06B, QWEN_14B, SMOL_135M
from lab.faults.neighbours import busy_loops, clients, deep_talk
from lab.faults.strangers import holds

CONTEXT = ("-c", "8192")
"""What a conversation needs: the KV cache of the trained 131072 tokens takes seconds to clear on the host."""
ALONE = Stage(CONTEXT)
"""A server with nothing wrong: the cure of most faults."""
CPUS = os.cpu_count() or 1


def healthy(name: str, what: str, model: str = LLAMA_8B, stage: Stage = ALONE) -> Fault:
    """A control: any finding on it is a false one."""
    return Fault(f"healthy_{name}", what, ("gpu",), model, stage, verdict="normal")


@contextmanager
def at_default_verbosity(playing: Playing) -> Iterator[None]:
    """The server is not told what to log, whatever the other stages tell theirs."""
    if "-lv" in playing.command:
        at = playing.command.index("-lv")
        del playing.command[at : at + 2]
    yield


FAULTS = (
    healthy("8b", "nothing: 8B at Q4_K_M"),
    healthy("135m", "nothing: 135M at Q4_0, where a token takes about a millisecond", SMOL_135M),
    healthy("600m", "nothing: 0.6B at Q4_K_M", QWEN_06B),
    healthy("14b", "nothing: 14B at Q4_K_M", QWEN_14B),
    healthy(
        "deep_talk",
        "a user whose conversation is 32,000 tokens long, with flash attention",
        stage=Stage(("-c", "40960", "-np", "1", "--metrics"), beside=(clients(1, deep_talk(32_000)),)),
    ),
    healthy("1b", "nothing: 1B at Q4_K_M", LLAMA_1B),
    healthy("1b_bf16", "nothing: 1B in BF16, which this GPU computes as it is", LLAMA_1B_BF16),
    healthy("moe", "nothing: a 30B mixture of experts, 3B of them active", MOE_30B),
    healthy("70b", "nothing: 70B at Q4_K_M", LLAMA_70B),
    healthy("all_defaults", "nothing set: a context of 131072 and four slots", stage=Stage()),
    healthy("context_131072", "-c 131072, and it fits with margin", stage=Stage(("-c", "131072"))),
    healthy(
        "kv_q8_0",
        "-ctk q8_0 -ctv q8_0 with flash attention: a KV type that has a kernel",
        stage=Stage((*CONTEXT, "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on")),
    ),
    healthy(
        "kv_q4_1",
        "-ctk q4_1 -ctv q4_1 with flash attention: a KV type that newer builds convert on the GPU",
        stage=Stage((*CONTEXT, "-ctk", "q4_1", "-ctv", "q4_1", "-fa", "on")),
    ),
    healthy(
        "default_verbosity",
        "nothing; the log hides its load lines",
        stage=Stage(CONTEXT, around=(at_default_verbosity,)),
    ),
    healthy("idle_stranger", "a stranger holds 50 GiB and does nothing", stage=Stage(CONTEXT, around=(holds(50),))),
    healthy(
        "some_cpus_busy",
        "a quarter of the CPUs is busy with other things, which a model on the GPU does not feel",
        stage=Stage(CONTEXT, beside=(busy_loops(max(1, CPUS // 4)),)),
    ),
    healthy(
        "eight_users",
        "-np 8 and eight users who ask all the while: each is answered at once",
        stage=Stage(("-np", "8", "-c", "32768", "--metrics"), beside=(clients(8),)),
    ),
)
