"""Choosing the next token on the CPU, after each step and while nothing else is computed."""

LOGITS_S_PER_ENTRY = 3.3e-9
"""Sampling in llama-server, the middle of what lies between llama-bench (lab/data/h200_speed_learning.jsonl) and the
server (tests/machines/lab_gpu_healthy_*) on hosts of one H200: 0.20 ms for 49,152 entries, 0.39 to 0.44 for 128,256 and
0.45 to 0.47 for 151,936; an older build on another such host took 0.7 ms for 128,256."""
SORT_S_PER_ENTRY = 6e-8
"""Sorting a whole vocabulary, the middle of what hosts take: 36 ns on a desktop (53.5 against 75.5 tok/s with 151,936
entries, llama.cpp issue 13171), 49 on two cores of a server, 147 on a host of an H200 (43 against 243 with 128,256)."""
SORT_SPREAD = 2.5


def sampling_s(vocabulary: float) -> float:
    """Seconds for a token as samplers are set by default: the best few of all entries are found, and weighed."""
    return vocabulary * LOGITS_S_PER_ENTRY


def sorting_s(vocabulary: float) -> float:
    """Seconds for a token that sorting all entries adds."""
    return vocabulary * SORT_S_PER_ENTRY


LOGPROB_S = 2.6e-6
"""For the probability of one more token at every step, which is found, written as JSON with its text and bytes, and
sent: 1,000 of them took 3.9 ms on two cores of a server (116 against 78 tok/s, 49,152 entries) and 1.8 ms on a host of
an H200 (236 against 149, 128,256 entries), beyond the pass over all entries."""
LOGPROBS_SPREAD = 1.8


def logprobs_s(count: float, vocabulary: float) -> float:
    """Seconds for a token that returning the probabilities of so many adds: all entries are weighed once more."""
    return vocabulary * LOGITS_S_PER_ENTRY + count * LOGPROB_S if count > 0 else 0.0
