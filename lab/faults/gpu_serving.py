"""On a GPU, what is asked and how: samplers, grammars, probabilities, slots, queues, prompts, slow clients."""

from lab.faults.fault import Fault, Metric, Stage
from lab.faults.gpu_healthy import ALONE, CONTEXT
from lab.faults.large_models import LLAMA_8B
from lab.faults.neighbours import clients, slow_proxy

PROXY_PORT = 8668
SORTED = ("--top-k", "0", "--typical", "0.9")
"""No sampler makes the choice small before one sorts it."""
DIGITS = "root ::= [0-9 ]+"
"""Rejects nearly every token of the vocabulary, so that all of them are tried."""


def slots(count: int) -> tuple[str, ...]:
    """So many, each with room for an ordinary conversation."""
    return ("-np", str(count), "-c", str(4096 * count), "--metrics")


def served(name: str, what: str, cause: str, stage: Stage, cure: Stage = ALONE, metric: Metric = "decode") -> Fault:
    """Nothing but the asking is wrong."""
    crowd = ("queueing", "gpu_underused_by_one_stream")
    also = tuple(other for other in crowd if cause in crowd and other != cause)
    return Fault(name, what, ("gpu",), LLAMA_8B, stage, cause, also, cure=cure, metric=metric)


FAULTS = (
    served(
        "whole_vocabulary_sorted",
        "--top-k 0 --typical 0.9: all 128256 tokens are sorted each time",
        "sampling_on_cpu",
        Stage((*CONTEXT, *SORTED)),
    ),
    served(
        "grammar",
        "--grammar with digits alone: each token is checked against all of the vocabulary",
        "sampling_on_cpu",
        Stage((*CONTEXT, "--grammar", DIGITS)),
    ),
    served(
        "logprobs",
        "a user who asks for the probabilities of 1,000 tokens with each one",
        "sampling_on_cpu",
        Stage((*CONTEXT, "--metrics"), beside=(clients(1, n_probs=1000),)),
        Stage((*CONTEXT, "--metrics"), beside=(clients(1),)),
    ),
    served(
        "slow_client",
        "a proxy before the server holds each piece back for 20 ms",
        "client_overhead",
        Stage(CONTEXT, beside=(slow_proxy(PROXY_PORT, 0.02),)),
    ),
    served(
        "one_slot_for_eight",
        "-np 1 and eight users: one is answered, seven wait",
        "gpu_underused_by_one_stream",
        Stage(slots(1), beside=(clients(8),)),
        Stage(slots(8), beside=(clients(8),)),
        "together",
    ),
    served(
        "queue",
        "-np 8 and twenty-four users: sixteen of them wait",
        "queueing",
        Stage(slots(8), beside=(clients(24),)),
        Stage(slots(24), beside=(clients(24),)),
        "first_token",
    ),
    served(
        "prompt_cache_off",
        "--no-cache-prompt: each turn of a conversation is read from its start",
        "prompt_reprocessed",
        Stage((*CONTEXT, "--no-cache-prompt")),
        metric="first_token",
    ),
)
