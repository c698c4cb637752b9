"""What `unslow diagnose` measures on a server of a built machine: three answers, and what the processors did."""

from typing import NamedTuple

from lab.built_machines.llama_server import URL
from lab.built_machines.parts import watched

from unslow.facts.machine import BusyProcess
from unslow.facts.run import Completion, Run
from unslow.facts.values import Fact, measured_fact, not_found

SOURCE = "median of 3 completions"


class Answer(NamedTuple):
    """One answer by the server's clock, and when its first and last piece came here; at once where nobody says."""

    tokens_per_s: float
    prompt_s: float = 2.0
    tokens: int = 96
    first_s: float = 0.0
    last_s: float = 0.0


class Others(NamedTuple):
    """What others used of the processors, who, and how long the server's threads waited for a token."""

    cpus: float = 0.0
    busiest: tuple[BusyProcess, ...] = ()
    waiting_s: float = 0.0


def measured_run(answer: Answer, own_cpus: float, others: Others = Others(), **host: float) -> Run:  # noqa: B008 (frozen)
    """The run, with figures of the host that were watched meanwhile."""
    decode_s = (answer.tokens - 1) / answer.tokens_per_s
    first = answer.first_s or answer.prompt_s + 0.02
    last = answer.last_s or first + decode_s
    done = Completion(
        prompt_tokens=128, generated_tokens=answer.tokens, prefill_s=answer.prompt_s, decode_s=decode_s,
        client_first_token_s=first, client_total_s=last, waited_s=others.waiting_s * answer.tokens,
    )  # fmt: skip
    figures = {"busy_cpus": own_cpus + others.cpus, "own_cpus": own_cpus, "others_cpus": others.cpus} | host
    return Run(
        completions=measured_fact((done,) * 3, URL),
        decode_tokens_per_s=measured_fact(answer.tokens_per_s, f"{SOURCE}, server clock"),
        prefill_tokens_per_s=measured_fact(128 / answer.prompt_s, SOURCE),
        time_to_first_token_s=measured_fact(first, f"{SOURCE}, client clock"),
        client_decode_tokens_per_s=measured_fact((answer.tokens - 1) / (last - first), f"{SOURCE}, client clock"),
        depth_tokens=measured_fact(128 + answer.tokens // 2, URL),
        own_cpus=measured_fact(own_cpus, "/proc/PID/stat while generating"),
        others_cpus=measured_fact(others.cpus, "/proc/stat and /proc/PID/stat while generating"),
        busiest_others=measured_fact(list(others.busiest), "/proc/PID/stat while generating"),
        waiting_for_cpu_s_per_token=measured_fact(others.waiting_s, "/proc/PID/task/*/schedstat while generating"),
        cpu_throttled_fraction=_throttled(host.get("cpu_throttled_share")),
        telemetry=watched(**figures),
    )


def _throttled(share: float | None) -> Fact[float]:
    return measured_fact(share, "cpu.stat") if share is not None else not_found("no CPU quota is set")
