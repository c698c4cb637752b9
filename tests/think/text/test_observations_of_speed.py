"""Observations about speed besides placement, each in several wordings, and near misses."""

import pytest

from unslow.facts.account import Topic
from unslow.think.text.prose import read_words

SAYINGS = {
    Topic.PROMPT_AGAIN: (
        "every request processes the prompt from the start",
        "entire context is processed at each generation",
        "every follow-up waits for the whole prompt again",
        "the first line of the system prompt holds ${currentDate}",
        "second message in a chat takes as long as the first",
        "two clients share one slot and evict each other's cache",
        "prefix cache: no hits between requests",
        "context shift does not work, BLAS processes 8000 tokens each turn",
        "10-60 s prompt processing at every request",
    ),
    Topic.RELOADS: (
        "the model is unloaded after each request",
        "loads the model again for every call",
        "two models take turns in VRAM",
        "different num_ctx makes it reload",
    ),
    Topic.SERVER_FAST: (
        "other API clients are fine",
        "the answer appears only when complete",
        "same prompt in the terminal answers in seconds",
        "ollama itself is fast",
        "nginx buffers the stream",
    ),
    Topic.QUEUED: (
        "second user waits until the first answer is complete",
        "parallel requests are processed sequentially",
        "ten users at once wait in a queue",
        "only one request at a time",
    ),
    Topic.LONG_THINKING: (
        "the model overthinks every question",
        "long reasoning before the answer",
        "thinks for two minutes",
        "1800 reasoning tokens before the reply",
        "no option to switch thinking off",
    ),
    Topic.CORES_IDLE: (
        "CPU inference uses only 4 cores",
        "only 50% of the cores used",
        "16 cores, 8 busy while prompting",
        "half of the cores stay idle",
        "does not use all cores",
    ),
    Topic.THREADS_OF_HOST: (
        "thread count follows the host CPUs",
        "it ignores the cgroup limit",
        "starts all 64 host threads",
    ),
    Topic.GPUS_TAKE_TURNS: (
        "two cards no faster than one",
        "one card computes while the other idles",
        "adding a second GPU halves the speed",
        "no speedup from four GPUs",
        "one GPU waits for the other",
    ),
    Topic.LINK_NARROW: (
        "one GPU at Gen2 x1",
        "LnkSta: Speed 2.5GT/s (downgraded), Width x4",
        "the card sits on an x1 riser",
        "the link is running at gen 1",
    ),
    Topic.POWER_LIMITED: ("SW Power Cap : Active", "slow on battery", "the laptop was unplugged"),
    Topic.COPIES_TO_GPU: (
        "all experts are copied to VRAM for every batch",
        "H2D expert traffic 150 GB",
        "decode dominated by copies",
    ),
    Topic.NODE_IMBALANCE: (
        "all allocations pinned to NUMA node 0",
        "workers read weights across QPI",
        "numastat shows all pages on node 1",
    ),
    Topic.GOING_BACK_HELPS: (
        "downgrade to build 3 restores the speed",
        "rolling back the engine fixes it",
        "the previous driver was fine",
        "bisected to 85a7d8677",
    ),
    Topic.GPU_CLOCK_LOW: ("SCLK 41Mhz while busy", "stuck at 300 MHz", "GPU clocks drop to 628 MHz"),
    Topic.EXTRA_REQUESTS: ("title generation request runs after the answer", "background tasks after each reply"),
    Topic.SLOW_SHARE: ("weights on NFS", "the model lies on a USB drive", "the share gives 60 MB/s"),
    Topic.BATCH_UNSET: ("no ubatch-size set", "ubatch left at the default"),
    Topic.DRAFT: ("average draft acceptance very low", "no gain from speculative decoding"),
}
NEAR_MISSES = {
    Topic.PROMPT_AGAIN: ("prompt processing is slow", "the prompt has 8000 tokens"),
    Topic.RELOADS: ("the model is loaded", "loading takes a minute"),
    Topic.SERVER_FAST: ("the server is slow", "curl is slow too"),
    Topic.QUEUED: ("I send one request", "two users on one machine"),
    Topic.LONG_THINKING: ("I am thinking of buying a GPU", "it answers quickly"),
    Topic.CORES_IDLE: ("all cores are busy", "16 cores and 32 threads"),
    Topic.GPUS_TAKE_TURNS: ("two cards are twice as fast", "I have two GPUs"),
    Topic.LINK_NARROW: ("PCIe 4.0 x16", "2x RTX 3090"),
    Topic.POWER_LIMITED: ("SW Power Cap : Not Active", "a battery of tests"),
    Topic.GOING_BACK_HELPS: ("downgrading did not help", "the new version is slow"),
    Topic.THROTTLED: ("speed falls when the card is full",),
}


def topics(line: str) -> set[Topic]:
    remarks = read_words([line], "r").subject.account.remarks.value_or(())
    return {remark.topic for remark in remarks if not remark.denied}


@pytest.mark.parametrize(("topic", "line"), [(t, line) for t, lines in SAYINGS.items() for line in lines])
def test_every_wording_gives_its_topic(topic, line):
    assert topic in topics(line)


@pytest.mark.parametrize(("topic", "line"), [(t, line) for t, lines in NEAR_MISSES.items() for line in lines])
def test_near_misses_do_not_give_the_topic(topic, line):
    assert topic not in topics(line)
