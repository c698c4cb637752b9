"""Faults of reading prompts: small batches, and caches that are off, defeated or given away."""

from lab.faults.cpu_threads import AS_IT_COMES, HERE
from lab.faults.fault import Fault, Stage
from lab.faults.neighbours import alternating, clients, clocked, steady

AGAIN = "prompt_reprocessed"

FAULTS = (
    Fault(
        "small_ubatch",
        "-ub 8: a prompt is read eight tokens at a time",
        HERE,
        "small",
        Stage(("-ub", "8")),
        "prefill_batch_too_small",
        cure=AS_IT_COMES,
        metric="prefill",
    ),
    Fault(
        "small_batch_1b",
        "-b 4, which also limits the micro-batch; a model of 1B",
        HERE,
        "llama_1b",
        Stage(("-b", "4")),
        "prefill_batch_too_small",
        cure=AS_IT_COMES,
        metric="prefill",
    ),
    Fault(
        "prompt_cache_off",
        "--no-cache-prompt: every turn of a conversation is read whole",
        HERE,
        "small",
        Stage(("--no-cache-prompt",)),
        AGAIN,
        cure=AS_IT_COMES,
        metric="first_token",
    ),
    Fault(
        "clock_in_prompt",
        "a client whose prompts start with the time of day: no start is like the one before",
        HERE,
        "small",
        Stage(("--metrics",), beside=(clients(1, clocked),)),
        AGAIN,
        cure=Stage(("--metrics",), beside=(clients(1, steady),)),
        metric="first_token",
    ),
    Fault(
        "more_talks_than_slots",
        "-np 1 --cache-ram 0 and three conversations in turns: each pushes the other out",
        HERE,
        "small",
        Stage(("-np", "1", "--cache-ram", "0", "--metrics"), beside=(clients(1, alternating),)),
        AGAIN,
        cure=Stage(("-np", "1", "--metrics"), beside=(clients(1, alternating),)),
        metric="first_token",
    ),
)
