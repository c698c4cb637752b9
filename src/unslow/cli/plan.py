"""Find the best settings for what runs, or for a model: speed, context or quality, each with what it costs.

Without a word it is for what runs here, against the settings that it has now. TARGET is a URL, a process id, a
snapshot file or a recording folder. MODEL is a GGUF file, a folder of safetensors, the name of a model that
`unslow models` lists, or a well-known name (llama-3.3-70b), for which no file is needed. Every plan is judged at the
work that you do: how long your prompts are, what is kept of the conversation, how long answers get. Nothing is
changed: `unslow apply` does that.

examples:
  unslow plan
  unslow plan http://127.0.0.1:8080 --prompt 4096
  unslow plan model.gguf --context 16384 --prompt 4096
  unslow plan llama-3.3-70b --device "RTX 4090" --ram 64GB
  unslow plan qwen3-30b-a3b --device "RTX 3060" --ram 64GB --goal context --least-speed 15
  unslow plan deepseek-v3 --quant Q2_K --device "2x RTX 4090" --ram 256GB --json
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    parser.add_argument("model", metavar="TARGET|MODEL", nargs="?", help="what runs (default: here), or a model")
    add_format_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="don't say what is being done")
    _add_goal(parser.add_argument_group("what it is for"))
    _add_where(parser.add_argument_group("where it runs"))


def _add_goal(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--goal", dest="aim", choices=("speed", "context", "quality"), default="speed", help="most of (default: speed)")
    add("-c", "--context", metavar="N", help="tokens that a conversation has room for (default: as now, else 8192)")
    add("--prompt", metavar="N", help="new tokens of a usual request (default: as seen, else 512)")
    add("--kept", metavar="N", help="tokens of the conversation that are in the cache already (default: 0)")
    add("--answer", metavar="N", help="tokens of a usual answer (default: 256)")
    add("--this-work-only", action="store_true", help="longer prompts and conversations may get slower than now")
    add("--users", metavar="N", help="conversations at a time (default: as it has slots for, else 1)")
    add("--least-speed", dest="least_tokens_per_s", type=float, metavar="TOK/S", help="floor of speed")
    add("--worst-perplexity", dest="worst_perplexity_increase", metavar="PERCENT",
        help="floor of quality: how much worse than in 16 bits it may predict (default: as the file)")  # fmt: skip


def _add_where(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--device", dest="devices", action="append", metavar="NAME",
        help="RTX 4090, 2x H100, cpu, or auto for this machine's (default); may be repeated")  # fmt: skip
    add("--ram", dest="ram_bytes", metavar="SIZE", help="the host's memory, where it is not this machine's: 64GB")
    add("--ram-bandwidth", metavar="SPEED", help="what the host's memory delivers: 80GB/s")
    add("--threads", metavar="N", help="cores of the host (default: all of them)")
    add("--runtime", metavar="NAME", help="of a MODEL: llama.cpp (default), ollama, lm_studio, vllm, transformers")
    add("--quant", metavar="NAME", help="the quant, for a name with no file")
    add("--margin", dest="margin_bytes", metavar="SIZE", help="to stay free on each GPU (default: 256MiB)")
    add("--draft", metavar="MODEL", help="a small model of the same family that guesses ahead")


def run(args: argparse.Namespace) -> int:
    """Plan and show."""
    from unslow.app.plan.answer import planned  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.app.plan.request import PlanRequest  # noqa: PLC0415
    from unslow.app.plan.subjects import hosts_named  # noqa: PLC0415
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._plan import check_plan_format, render_plan  # noqa: PLC0415

    check_plan_format(args.format)
    with Progress(quiet=args.quiet) as progress:
        report = planned(LiveSystem(hosts_named(args.model)), PlanRequest.from_flags(vars(args)), progress)
    write(render_plan(report, args.format, width=width(), color=color()))
    return {"better": 0, "already_best": 0, "impossible": 1, "cannot_tell": 3}[report.verdict]
