"""Faults of choosing the next token: sorting a whole vocabulary, grammars, logprobs, drafts that are never right."""

from lab.faults.cpu_threads import AS_IT_COMES, HERE
from lab.faults.fault import Fault, Stage
from lab.faults.neighbours import clients

CAUSE = "sampling_on_cpu"
GRAMMAR = 'root ::= (word " ")+\nword ::= [a-z] [a-z]? [a-z]? [a-z]?'
SCHEMA = '{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"place":{"type":"string"}}}}'

FAULTS = (
    Fault(
        "top_k_0",
        "--top-k 0: the whole vocabulary is sorted for every token",
        HERE,
        "small",
        Stage(("--top-k", "0")),
        CAUSE,
        cure=AS_IT_COMES,
    ),
    Fault(
        "top_k_0_typical",
        "--top-k 0 with --typical 0.9, which sorts once more",
        HERE,
        "small",
        Stage(("--top-k", "0", "--typical", "0.9")),
        CAUSE,
        cure=AS_IT_COMES,
    ),
    Fault(
        "grammar",
        "--grammar for every request: each token is held against it",
        HERE,
        "small",
        Stage(("--grammar", GRAMMAR)),
        CAUSE,
        cure=AS_IT_COMES,
    ),
    Fault(
        "json_schema",
        "--json-schema for every request: each token is held against a grammar",
        HERE,
        "small",
        Stage(("--json-schema", SCHEMA)),
        CAUSE,
        cure=AS_IT_COMES,
    ),
    Fault(
        "logprobs",
        "a client that asks for the probabilities of 1,000 tokens at every step",
        HERE,
        "small",
        Stage(("--metrics",), beside=(clients(1, n_probs=1000),)),
        CAUSE,
        cure=Stage(("--metrics",), beside=(clients(1),)),
    ),
    Fault(
        "logprobs_of_experts",
        "a client that asks for the probabilities of 3,000 tokens at every step, a mixture of experts",
        HERE,
        "experts",
        Stage(("--metrics",), beside=(clients(1, n_probs=3000),)),
        CAUSE,
        cure=Stage(("--metrics",), beside=(clients(1),)),
    ),
    Fault(
        "draft_never_accepted",
        "a draft model of random weights, eight tokens ahead",
        HERE,
        "small",
        Stage(("-md", "{models}/draft.gguf", "--spec-type", "draft-simple", "--spec-draft-n-max", "8")),
        "speculative_decoding_hurts",
        cure=AS_IT_COMES,
    ),
)
