"""Choosing the next token on the CPU, after each step and while nothing else is computed."""

LOGITS_S_PER_ENTRY = 5.5e-9
"""Sampling in llama-server: 0.7 ms for 128,256 entries between llama-bench and the server on one H200 host."""
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
