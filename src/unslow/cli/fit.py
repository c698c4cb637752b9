"""Say whether a model fits: what it asks of each device, byte by byte, and what would fit.

MODEL is a GGUF file, a folder with safetensors, a URL of a GGUF file, the name of a model that `unslow models` lists,
`-` for a header on standard input, or a well-known name (llama-3.3-70b), for which no file is needed.

examples:
  unslow fit llama-3.3-70b --quant Q4_K_M --device "RTX 4090"
  unslow fit model.gguf --context 32768 --kv-type q8_0
  unslow fit gpt-oss-120b --device "2x RTX 3090" --n-cpu-moe 20 --ram 64GB
  unslow fit gemma-3-27b --device 24GB --context 128k --json
  unslow fit --list qwen3

exit status: 0 fits, 1 fits only partly or not at all, 2 could not run, 3 cannot tell
"""

import argparse

from unslow.facts.errors import UserError

_ON_OFF = argparse.BooleanOptionalAction


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    parser.add_argument("model", metavar="MODEL", nargs="?", help="file, folder, URL, stored model or well-known name")
    parser.add_argument(
        "--list", nargs="?", const="", metavar="WORD", help="list the well-known models, all or those of a family"
    )
    add_format_arguments(parser)
    _add_where(parser)
    _add_settings(parser.add_argument_group("settings, as llama.cpp has them"))


def _add_where(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--device",
        dest="devices",
        action="append",
        metavar="NAME",
        help="RTX 4090, 2x H100, M3 Max 64GB, 24GB, cpu, or auto for this machine's (default); may be repeated",
    )
    add("--ram", dest="ram_bytes", metavar="SIZE", help="the host's memory, where it is not this machine's: 64GB")
    add(
        "--quant", metavar="NAME", help="the quant to fit, for a name with no file (default: as published, else Q4_K_M)"
    )
    add("--runtime", metavar="NAME", help="llama_cpp (default), ollama (of its own models), vllm or transformers")
    add("--margin", dest="margin_bytes", metavar="SIZE", help="to stay free on each device (default: 1GiB)")


def _add_settings(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-c",
        "--context",
        metavar="N",
        help="all tokens, for all slots together (Ollama: for each); 0 for all that the model was trained for "
        "(default: 8192; vLLM: the longest that fits)",
    )
    add("-np", "--parallel", metavar="N", help="slots (default: llama-server's 4 with one cache for all, else 1)")
    add("-kvu", "--kv-unified", action=_ON_OFF, default=None, help="one cache for all slots")
    add(
        "-ctk",
        "--kv-type",
        default="f16",
        metavar="TYPE",
        help="of keys, and of values unless --kv-type-v is given (default: f16)",
    )
    add("-ctv", "--kv-type-v", metavar="TYPE", help="of values")
    add("--kv-offload", action=_ON_OFF, default=True, help="keep the cache with its layer, or on the host (-nkvo)")
    add("-nkvo", dest="kv_offload", action="store_false", help=argparse.SUPPRESS)
    add("--swa-full", action="store_true", help="sliding-window layers keep the whole context")
    add("-ngl", "--gpu-layers", metavar="N", help="layers on the GPUs, the output counted as one (default: all)")
    add("-ncmoe", "--n-cpu-moe", default="0", metavar="N", help="experts of the first N layers stay on the host")
    add("-ot", "--override-tensor", action="append", metavar="PATTERN=DEVICE", help="such as exps=CPU")
    add("-ts", "--tensor-split", metavar="A,B", type=_shares, help="shares of several GPUs (default: by free memory)")
    add("-b", "--batch", metavar="N", help="logical batch (default: 2048)")
    add("-ub", "--ubatch", metavar="N", help="what is computed at once (default: 512)")
    add("--outputs", metavar="N", help="tokens with logits in a batch: a server's slots (default), 0 for all")
    add("-fa", "--flash-attention", choices=("on", "off", "auto"), default="auto", help="(default: auto)")
    add("--op-offload", action=_ON_OFF, default=True, help="GPUs compute long prompts with the host's weights")
    add("--gpu-memory-utilization", type=float, metavar="SHARE", help="vLLM's (default: 0.92, as since vLLM 0.20)")


def _shares(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def run(args: argparse.Namespace) -> int:
    """Answer and show."""
    from unslow.app.fit import Request, answer  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.catalog.model_names import listed  # noqa: PLC0415
    from unslow.cli._output import color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._fit import check_fit_format, render_fit  # noqa: PLC0415
    from unslow.show._known import render_known  # noqa: PLC0415

    check_fit_format(args.format)
    if args.list is not None:
        write(render_known(listed(args.list), args.format, width=width()))
        return 0
    if not args.model:
        raise UserError("which model?", "`unslow fit MODEL`, or `unslow fit --list` for the well-known ones")
    report = answer(LiveSystem(), Request.from_flags(vars(args)))
    write(render_fit(report, args.format, width=width(), color=color()))
    return {True: 0, False: 1, None: 3}[report.fits]
