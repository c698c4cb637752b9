"""Predict how fast a model runs: decode, prompt and first token, with an interval that holds four of five measurements.

MODEL is a well-known name (llama-3.3-70b), a GGUF file, a URL of one, or a model that `unslow models` lists. Without
--device this machine is meant. As many layers as fit lie on the GPU, the rest on the host, unless --gpu-layers says so.

With --csv every row of a table is predicted: columns model, hardware and test are needed; quant, model_size_gib,
params_b, n_gpus, backend, runtime, ngl, ctx_or_depth, flash_attn, kv_type, threads, batch, date_or_build and note are
used where they are there. OUT repeats the table with predicted_tok_s, predicted_low, predicted_high, basis and reason.

examples:
  unslow predict llama-3.3-70b --quant Q4_K_M --device "RTX 4090"
  unslow predict qwen3-8b --quant Q6_K --device "RTX 5090" --explain
  unslow predict gpt-oss-120b --device "2x RTX 3090" --context 32k --kv-type q8_0
  unslow predict model.gguf --batch 8 --prompt 4096
  unslow predict qwen3-32b --device H100 --draft qwen3-0.6b --draft-tokens 4 --acceptance 0.7
  unslow predict --csv measurements.csv --out predicted.csv

exit status: 0 predicted, 2 could not run, 3 cannot tell
"""

import argparse

from unslow.facts.errors import UserError

_WRITTEN = {
    "model": "MODEL", "devices": "--device", "ram_bytes": "--ram", "depth": "--context",
    "flash_attention": "--no-flash-attention", "graphs": "--no-graphs", "format": "--json",
}  # fmt: skip
"""Arguments whose flag has another name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    parser.add_argument("model", metavar="MODEL", nargs="?", help="well-known name, file, URL or stored model")
    parser.add_argument("--explain", action="store_true", help="the memory wall: what binds, batching, quant by quant")
    add_format_arguments(parser)
    _add_where(parser)
    _add_settings(parser.add_argument_group("settings"))
    _add_draft(parser.add_argument_group("speculative decoding"))
    _add_table(parser.add_argument_group("a whole table"))


def _add_where(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--quant", metavar="NAME", help="for a name with no file (default: as published, else Q4_K_M)")
    add(
        "--device", dest="devices", action="append", metavar="NAME",
        help="RTX 4090, 2x H100, M3 Max 64GB, a processor, or auto for this machine's (default)",
    )  # fmt: skip
    add("--gpus", metavar="N", help="how many of that device (default: 1)")
    add("--runtime", metavar="NAME", help="llama.cpp (default), ollama (of its own models), vllm or transformers")
    add("--backend", metavar="NAME", help="cuda, rocm, metal, vulkan or cpu (default: by the device's maker)")
    add("--ram-bandwidth", metavar="SPEED", help="what the host's memory delivers: 80GB/s (default: measured here)")
    add("--ram", dest="ram_bytes", metavar="SIZE", help="the host's memory, where it is not this machine's: 64GB")
    add("--threads", metavar="N", help="of the host (default: its cores)")


def _add_settings(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-c", "--context", "--depth", dest="depth", metavar="N",
        help="tokens that are already in the context: 8192 or 128k (default: 0)",
    )  # fmt: skip
    add("-ngl", "--gpu-layers", metavar="N", help="layers on the GPUs, the output counted as one (default: auto)")
    add("-ncmoe", "--cpu-moe", "--n-cpu-moe", metavar="N", help="experts of the first N layers stay on the host")
    add("-ctk", "--kv-type", metavar="TYPE", help="of keys and values (default: f16)")
    add("-sm", "--split", metavar="HOW", help="of several GPUs: layer, row or tensor (default: layer; vLLM: tensor)")
    add("--batch", metavar="N", help="conversations that are served at once (default: 1)")
    add("--prompt", metavar="N", help="tokens of the prompt whose reading is predicted (default: 512)")
    add("-ub", "--ubatch", metavar="N", help="prompt tokens that are computed at once (default: 512)")
    add("--no-flash-attention", dest="flash_attention", action="store_false", default=None, help="(default: on)")
    add("--no-graphs", dest="graphs", action="store_false", default=None, help="without CUDA graphs (default: with)")


def _add_draft(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--draft", metavar="MODEL", help="a small model that drafts tokens")
    group.add_argument("--draft-tokens", metavar="N", help="how many at a time (default: 4)")
    group.add_argument("--acceptance", type=float, metavar="SHARE", help="of drafted tokens that are right: 0.7")


def _add_table(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--csv", metavar="IN", help="predict every row of a table; - for standard input")
    group.add_argument("--out", metavar="OUT", help="where to (default: standard output)")
    group.add_argument("--force", action="store_true", help="overwrite OUT")


def run(args: argparse.Namespace) -> int:
    """Predict and show."""
    from unslow.app.predict import Request, answer  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._predict import check_predict_format, render_predict  # noqa: PLC0415

    check_predict_format(args.format)
    if args.csv is not None:
        return _table(args)
    if args.out is not None or args.force:
        raise UserError("--out and --force are for tables", "add --csv IN, or redirect standard output")
    if not args.model:
        raise UserError("which model?", "`unslow predict MODEL`, or `unslow predict --csv IN --out OUT` for a table")
    report = answer(LiveSystem(), Request.from_flags(vars(args)))
    write(render_predict(report, args.format, width=width(), color=color()))
    return 0 if report.decode else 3


def _table(args: argparse.Namespace) -> int:
    """Predict a table."""
    from unslow.cli._output import Progress  # noqa: PLC0415

    try:
        from unslow.app.predict.tables import predict_table  # noqa: PLC0415
    except ModuleNotFoundError as error:  # one case needs no arrays
        raise UserError(
            f"tables are predicted with {error.name}, which is not installed", "pip install numpy"
        ) from error
    if alone := _of_one_case(args):
        raise UserError(f"--csv stands alone: {alone[0]} is not for tables", "each row says what it asks")
    with Progress() as progress:
        done = predict_table(args.csv, args.out or "-", progress, force=args.force)
    return 0 if done.predicted or not done.rows else 3


def _of_one_case(args: argparse.Namespace) -> list[str]:
    """The arguments that were given and that a table has no use for, as they are written."""
    unset = {"explain": False, "format": "terminal"}
    given = [name for name, value in vars(args).items() if value != unset.get(name)]
    names = sorted(set(given) - {"csv", "out", "force", "command", "run"})
    return [_WRITTEN.get(name, f"--{name.replace('_', '-')}") for name in names]
