"""Find the best settings for a running server or for a model.

Without an argument, it plans for what runs here and compares with its current settings. TARGET is a URL, a process id,
a snapshot file or a recording folder. MODEL is a GGUF file, a folder of safetensors, the name of a model that
`unslow models` lists, or a well-known name (llama-3.3-70b), which needs no file. A plan is optimized for speed, context
or quality at your workload: the length of prompts, of the kept conversation and of answers. Nothing is changed:
`unslow apply` does that.

examples:
  unslow plan
  unslow plan http://127.0.0.1:8080 --prompt 4096
  unslow plan model.gguf --context 16384 --prompt 4096
  unslow plan llama-3.3-70b --device "RTX 4090" --ram 64GB
  unslow plan qwen3-30b-a3b --device "RTX 3060" --ram 64GB --goal context --least-speed 15
  unslow plan deepseek-v3 --quant Q2_K --device "2x RTX 4090" --ram 256GB --json
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from unslow.commands._output import Progress
from unslow.commands._request import PATH, PERCENT, SIZE, SPEED, LongRequest, Option, function_of, one_of
from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.think.plan.report import PlanReport

RUNTIMES = ("llama.cpp", "ollama", "lm_studio", "vllm", "transformers")
RUNTIME = one_of(
    RUNTIMES, {"llamaserver": "llama.cpp", "lms": "lm_studio", "hf": "transformers", "huggingface": "transformers"}
)
_GOAL, _WHERE = "workload", "hardware"


class PlanRequest(LongRequest, frozen=True, kw_only=True):
    """The best settings for a running server or a model, each with its gain and its cost; changes nothing."""

    model: Annotated[
        str | None,
        Option(
            "a running server (default: on this machine), or a model",
            metavar="TARGET|MODEL",
            kind=PATH,
            positional=True,
        ),
    ] = None
    aim: Annotated[
        Literal["speed", "context", "quality"], Option("what to maximize (default: speed)", name="goal", group=_GOAL)
    ] = "speed"
    context: Annotated[
        int | None,
        Option("context length per conversation (default: as now, else 8192)", "-c", metavar="N", least=256,
               most=2**27, group=_GOAL),
    ] = None  # fmt: skip
    prompt: Annotated[
        int | None,
        Option("prompt tokens of a typical request (default: as observed, else 512)", metavar="N", least=1, most=2**24,
               group=_GOAL),
    ] = None  # fmt: skip
    kept: Annotated[
        int,
        Option("tokens already in the KV cache (default: 0)", metavar="N", least=0,
               most=2**24, group=_GOAL),
    ] = 0  # fmt: skip
    answer: Annotated[
        int,
        Option("generated tokens of a typical request (default: 256)", metavar="N", least=1, most=2**20, group=_GOAL),
    ] = 256
    this_work_only: Annotated[
        bool, Option("allow longer prompts and conversations to get slower than now", group=_GOAL, seldom=True)
    ] = False
    users: Annotated[
        int,
        Option("concurrent conversations (default: the number of slots, else 1)", metavar="N", least=1, most=256,
               group=_GOAL),
    ] = 1  # fmt: skip
    least_tokens_per_s: Annotated[
        float | None, Option("minimum speed", name="least_speed", metavar="TOK/S", group=_GOAL)
    ] = None
    worst_perplexity_increase: Annotated[
        float | None,
        Option("maximum quality loss: perplexity increase over 16 bits (default: as the file)",
               name="worst_perplexity", metavar="PERCENT", kind=PERCENT, group=_GOAL, seldom=True),
    ] = None  # fmt: skip
    devices: Annotated[
        tuple[str, ...],
        Option("RTX 4090, 2x H100, cpu, or auto for this machine's (default); repeatable", name="device",
               metavar="NAME", group=_WHERE),
    ] = ("auto",)  # fmt: skip
    ram_bytes: Annotated[
        int | None,
        Option("host memory, if not this machine's: 64GB", name="ram", metavar="SIZE", kind=SIZE,
               group=_WHERE),
    ] = None  # fmt: skip
    ram_bandwidth: Annotated[
        float | None, Option("host memory bandwidth: 80GB/s", metavar="SPEED", kind=SPEED, group=_WHERE, seldom=True)
    ] = None
    """Bytes per second."""
    threads: Annotated[
        int | None, Option("host cores (default: all)", metavar="N", least=1, most=4096, group=_WHERE, seldom=True)
    ] = None
    runtime: Annotated[
        str,
        Option("for a MODEL: llama.cpp (default), ollama, lm_studio, vllm, transformers", metavar="NAME", kind=RUNTIME,
               group=_WHERE),
    ] = "llama.cpp"  # fmt: skip
    quant: Annotated[str | None, Option("quant, for a model name without a file", metavar="NAME", group=_WHERE)] = None
    margin_bytes: Annotated[
        int | None,
        Option(
            "memory to keep free on each GPU (default: 256MiB)",
            name="margin",
            metavar="SIZE",
            kind=SIZE,
            group=_WHERE,
            seldom=True,
        ),
    ] = None
    draft: Annotated[
        str | None, Option("draft model: a small model of the same family", metavar="MODEL", group=_WHERE)
    ] = None

    def with_seen(self, **seen: int | None) -> Self:
        """With what was seen, where the user wrote nothing."""
        known: dict[str, Any] = {k: v for k, v in seen.items() if v is not None and k not in self.given}
        return self._replace(**known)

    def check(self) -> None:
        """UserError where fields don't go together."""
        if self.least_tokens_per_s is not None and self.least_tokens_per_s <= 0:
            raise UserError("--least-speed must be above 0 tokens per second", "such as --least-speed 10")
        if self.ram_bytes == 0:
            raise UserError("--ram must be above 0: every model needs some host memory", "such as --ram 32GB")
        if self.aim != "speed" and self.least_tokens_per_s is None:
            raise UserError(f"--goal {self.aim} needs a minimum speed", "add --least-speed 10")


def answer(request: PlanRequest, progress: Progress) -> "PlanReport":
    """The best settings."""
    from unslow.commands.plan.planner import make_plan
    from unslow.commands.plan.subjects import hosts_named
    from unslow.look.system.live import LiveSystem

    return make_plan(LiveSystem(hosts_named(request.model)), request, progress)


def run(request: PlanRequest) -> int:
    """Plan and show."""
    from unslow.commands._output import show_answer
    from unslow.show.plan import render_plan

    report = show_answer(request, render_plan, answer)
    return {"better": 0, "already_best": 0, "impossible": 1, "cannot_tell": 3}[report.verdict]


plan = function_of(PlanRequest, answer)
