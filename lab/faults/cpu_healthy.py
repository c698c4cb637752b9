"""Healthy controls, some of which look like a fault: nothing may be found."""

from lab.faults.control_groups import cpu_quota, limited, memory
from lab.faults.cpu_memory import MIB
from lab.faults.cpu_threads import ALL, CPUS, HERE
from lab.faults.fault import Fault, Stage
from lab.faults.neighbours import clients
from lab.faults.storage import cold_copy, swap_file


def _healthy(name: str, what: str, model: str, stage: Stage) -> Fault:
    return Fault(f"healthy_{name}", what, HERE, model, stage, verdict="normal")


FAULTS = (
    _healthy("small", "nothing: 135M at Q4_1", "small", Stage()),
    _healthy("1b", "nothing: 1B at Q4_K_M, so a context of 131072 and four slots", "llama_1b", Stage()),
    _healthy("experts", "nothing: a mixture of 24 experts, 6 of which are used", "experts", Stage()),
    _healthy("long_context", "-c 32768, and it fits with margin", "llama_1b", Stage(("-c", "32768"))),
    _healthy("many_slots", "-np 8, all of them idle", "small", Stage(("-np", "8", "--metrics"))),
    _healthy("told_more", "nothing, and a log that tells all", "small", Stage(("-lv", "4"))),
    _healthy("kv_q8_0", "-ctk q8_0 -ctv q8_0 -fa on", "small", Stage(("-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on"))),
    _healthy(
        "roomy_quota",
        "a control group with as much time as its threads can use, and memory to spare",
        "small",
        Stage(ALL, around=(limited(cpu_quota(float(CPUS)), memory(4096 * MIB)),)),
    ),
    _healthy(
        "served_load",
        "two users with pauses, a slot for each: nobody waits",
        "small",
        Stage(("-np", "4", "--metrics"), beside=(clients(2, pause_s=1.0),)),
    ),
    _healthy(
        "few_logprobs",
        "a client that asks for the probabilities of 20 tokens at every step, which costs next to nothing",
        "small",
        Stage(("--metrics",), beside=(clients(1, n_probs=20),)),
    ),
    _healthy(
        "idle_swap",
        "a KV cache of 1.5 GB of which half is swapped out, and nothing waits for it",
        "small",
        Stage(("-c", "65536", "-np", "8"), around=(swap_file(2048 * MIB), cold_copy, limited(memory(1000 * MIB)))),
    ),
)
