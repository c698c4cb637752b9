"""How vLLM is told things: its flags and variables, the facts that they are, and which version changed what.

As in vllm/engine/arg_utils.py and vllm/envs.py; spellings that a later version took away stay here for older ones.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, estimated_fact, first_known, not_supported, reported_fact
from unslow.look.command_line import ALL_WORDS, COMMAND, Flag, Flags, Setting, negatable
from unslow.look.logs.commands import CommandLines
from unslow.look.runtimes._engine_server import model_of_name
from unslow.look.runtimes._given_settings import GivenSettings, is_not_given, shared_settings

NAME = "vLLM"
Version = tuple[int, ...]
FLAGS = Flags(
    {
        # where and what
        "host": Flag(("--host",)),
        "port": Flag(("--port",)),
        "socket": Flag(("--uds",)),
        "root_path": Flag(("--root-path",)),
        "certificate": Flag(("--ssl-certfile",)),
        "api_key": Flag(("--api-key",), ("VLLM_API_KEY",), most=ALL_WORDS, secret=True),
        "hub_token": Flag(("--hf-token",), secret=True),
        "model": Flag(("--model", "--model-tag")),
        "served_name": Flag(("--served-model-name",)),
        "download_folder": Flag(("--download-dir",)),
        "revision": Flag(("--revision",)),
        # memory
        "memory_fraction": Flag(("--gpu-memory-utilization",)),
        "kv_bytes": Flag(("--kv-cache-memory-bytes", "--kv-cache-memory")),
        "kv_blocks": Flag(("--num-gpu-blocks-override",)),
        "kv_type": Flag(("--kv-cache-dtype",)),
        "cpu_offload": Flag(("--cpu-offload-gb",)),
        "swap_space": Flag(("--swap-space",)),
        "block_size": Flag(("--block-size",)),
        "context": Flag(("--max-model-len",)),
        "cpu_kv": Flag((), ("VLLM_CPU_KVCACHE_SPACE",)),
        "binding": Flag((), ("VLLM_CPU_OMP_THREADS_BIND",)),
        "threads": Flag((), ("OMP_NUM_THREADS",)),
        # work
        "sequences": Flag(("--max-num-seqs",)),
        "batched_tokens": Flag(("--max-num-batched-tokens",)),
        "chunked": negatable("--enable-chunked-prefill"),
        "prefix_cache": negatable("--enable-prefix-caching"),
        "eager": negatable("--enforce-eager"),
        "optimisation": Flag(("-O", "--optimization-level")),
        "unoptimised": negatable("-O0"),
        "compilation": Flag(("--compilation-config", "-cc")),
        "graph_mode": Flag(("--compilation-config.cudagraph-mode", "-cc.cudagraph_mode", "-O.cudagraph_mode")),
        "attention": Flag(("--attention-backend",), ("VLLM_ATTENTION_BACKEND",)),
        "attention_config": Flag(("--attention-config.backend", "-ac.backend")),
        "moe_backend": Flag(("--moe-backend",)),
        "tensor_parallel": Flag(("--tensor-parallel-size", "-tp")),
        "pipeline_parallel": Flag(("--pipeline-parallel-size", "-pp")),
        "data_parallel": Flag(("--data-parallel-size", "-dp")),
        "expert_parallel": negatable("--enable-expert-parallel", "-ep"),
        "device": Flag(("--device",)),
        # weights
        "quantization": Flag(("--quantization", "-q")),
        "dtype": Flag(("--dtype",)),
        "load_format": Flag(("--load-format",)),
        # drafting
        "speculative": Flag(("--speculative-config", "-sc")),
        "draft_model": Flag(("--speculative-model",)),
        "draft_tokens": Flag(("--num-speculative-tokens",)),
        # sampling
        "generation_config": Flag(("--generation-config",)),
        # what it writes
        "no_statistics": negatable("--disable-log-stats"),
    }
)
SHARED = frozenset({
    "--host", "--port", "--uds", "--root-path", "--ssl-certfile", "--api-key", "--hf-token", "--model", "--revision",
    "--device", "--dtype", "--load-format", "--block-size", "--quantization", "--kv-cache-dtype", "--cpu-offload-gb",
    "--attention-backend", "--download-dir", "--served-model-name", "--moe-backend", "--swap-space",
    "-O", "-tp", "-pp", "-dp", "-ep", "-q", "-sc",
})  # fmt: skip
"""Flags that other programs have too."""
_OWN = FLAGS.spellings - SHARED
_MAYBE = frozenset({"--quantization", "--kv-cache-dtype", "--cpu-offload-gb", "--attention-backend"})
"""Flags of serving engines: in a sentence they mean something, but not which engine it is."""

# which version changed what
ATTENTION_FLAG: Version = (0, 15)  # 2026-01-22: the variable VLLM_ATTENTION_BACKEND is read no more
FIRST_V1: Version = (0, 8)  # 2025-03: the second engine is the default, and with it the cache of prefixes
UNBOUND_SINCE = (0, 11, 1)
"""The release that first left threads unbound when told so; before, a list of CPUs is what sets their number."""
DEFAULTS: dict[str, tuple[Any, Version, Any]] = {
    "gpu_memory_fraction": (0.92, (0, 20), 0.9),
    "prompt_cache": (True, FIRST_V1, False),
}
"""What a setting is where it is not set, since which version, and what it was before."""
SINCE: dict[str, Version] = {
    "--max-model-len": (0, 2, 0), "--quantization": (0, 2, 0), "--enforce-eager": (0, 2, 6),
    "--kv-cache-dtype": (0, 3, 0), "--enable-prefix-caching": (0, 4, 0), "--speculative-model": (0, 4, 1),
    "VLLM_ATTENTION_BACKEND": (0, 4, 2), "--no-enable-prefix-caching": (0, 6, 5), "--speculative-config": (0, 8, 2),
    "--attention-backend": (0, 13, 0),
}  # fmt: skip
"""The release that first had each flag, by vllm/engine/arg_utils.py of every release; the others are as old as it."""
UNTIL: dict[str, Version] = {"--speculative-model": (0, 8, 3), "VLLM_ATTENTION_BACKEND": (*ATTENTION_FLAG, 0)}
"""The release that first lacked it again."""
CACHE_TYPES_SINCE: dict[str, Version] = {
    "auto": (0, 3, 0), "fp8_e5m2": (0, 4, 3), "fp8": (0, 4, 1), "fp8_e4m3": (0, 4, 3), "fp8_inc": (0, 10, 0),
    "bfloat16": (0, 11, 0), "float16": (0, 18, 0), "int8_per_token_head": (0, 20, 0), "fp8_per_token_head": (0, 20, 0),
    "nvfp4": (0, 20, 0), "turboquant_k8v4": (0, 20, 0), "turboquant_4bit_nc": (0, 20, 0),
    "turboquant_k3v4_nc": (0, 20, 0), "turboquant_3bit_nc": (0, 20, 0), "int4_per_token_head": (0, 25, 0),
}  # fmt: skip


GRAPH_KEYS = ("cudagraph_mode", "use_cudagraph")  # Of the compilation config; the second until 0.11


def requested_settings(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the environment could be read too, so that absence is a fact."""
    given = GivenSettings(NAME, FLAGS, settings, complete)
    length = given.number("context")
    # On a CPU: while it binds threads to cores, their number is its own, and its log tells it
    binding = given.settings.get("binding")
    unbound = binding is not None and binding.value == "nobind" and "threads" in given.settings
    way: Fact[Any] = first_known(given.word("draft_model"), given.within("speculative", "method", "model"))
    tokens: Fact[Any] = given.within("speculative", "num_speculative_tokens")
    known = isinstance(tokens, Known) and type(tokens.value) is int and 0 < tokens.value < 1000  # noqa: PLR2004
    facts: dict[str, Any] = {
        **shared_settings(given),
        "context_length": length if isinstance(length, Known) else given.missing("context"),
        "prompt_cache": given.truth("prefix_cache"),
        "eager": _is_eager(given),
        "graphs_without_attention": _are_in_pieces(given),
        "attention": first_known(given.word("attention"), given.word("attention_config")),
        **({"kv_blocks_set": given.number("kv_blocks")} if "kv_blocks" in settings else {}),
        "speculative": reported_fact(str(way.value), way.source) if isinstance(way, Known) else way,
        "draft_tokens": tokens if known else given.number("draft_tokens"),
        **({"threads": given.number("threads")} if unbound else {}),
    }
    return Runtime().with_facts(**facts)


def _is_eager(given: GivenSettings) -> Fact[bool]:
    """Without graphs by its own switch, by the lowest level of optimisation, or by the mode of graphs.

    Only a mode of none is without. Before 0.11 a switch beside the mode said so.
    """
    level, lowest = given.settings.get("optimisation"), given.truth("unoptimised")
    if level and level.value == "0":
        return reported_fact(value=True, source=level.source)
    off = next((mode for mode in _graph_modes(given) if is_without_graphs(mode.value)), None)
    if off is not None:
        return reported_fact(value=True, source=off.source)
    return lowest if isinstance(lowest, Known) else given.truth("eager", default=False)


def _are_in_pieces(given: GivenSettings) -> Fact[bool]:
    """Whether attention was told to stay out of the graphs; not known where no mode was given."""
    mode = next(iter(_graph_modes(given)), None)
    if mode is None:
        return NOT_LOOKED
    return reported_fact(str(mode.value).strip().upper() in ("PIECEWISE", "1"), mode.source)


def _graph_modes(given: GivenSettings) -> list[Known[Any]]:
    """The modes of graphs that it was given, by a switch of their own or within the compilation config."""
    alone = given.settings.get("graph_mode")
    modes: list[Fact[Any]] = [reported_fact(alone.value, alone.source)] if alone else []
    for name in ("compilation", "optimisation"):  # older versions took the same object after -O
        modes += [given.within(name, key) for key in GRAPH_KEYS]
    return [mode for mode in modes if isinstance(mode, Known)]


def is_without_graphs(mode: object) -> bool:
    """Whether a mode of CUDA graphs is none at all, by its name or by its number."""
    return str(mode).strip().upper() in ("NONE", "0", "FALSE")


def model_of(command: Sequence[str], settings: Mapping[str, Setting]) -> str:
    """The model as it was written: a folder, or a name in a hub; empty where there is none."""
    if "model" in settings:
        return settings["model"].value
    words = list(command)
    start = words.index("serve") if "serve" in words[:6] else -1
    return next(FLAGS.positional(words[start:]), "") if start >= 0 else ""


def parse_command(command: Sequence[str], environment: Mapping[str, str]) -> Subject:
    """What the command asks for. The pattern may begin at the model, which stands before the flags."""
    words = list(command)
    program = words[0] if words else ""
    if program and not re.match(r"vllm\b", program):
        words = ["vllm", "serve", *words]
    settings = FLAGS.settings(words, environment)
    own = any(word.partition("=")[0].replace("_", "-") in _OWN for word in words)
    named = bool(program) or own or any(name.startswith("VLLM_") for name in environment)
    runtime = requested_settings(settings, complete=False).with_facts(
        name=reported_fact(NAME, COMMAND) if named else NOT_LOOKED,
        command=reported_fact(FLAGS.without_secrets(words), COMMAND),
    )
    return Subject(runtime=runtime, model=model_of_name(model_of(words, settings), COMMAND))


COMMANDS = CommandLines(
    program=re.compile(
        r"(?<=\bvllm serve )[^\s-]\S{0,300}(?=\s+-)|\bvllm (?:serve|bench)\b(?=\s+-)"
        r"|\bvllm\.entrypoints\.[\w.]{1,60}|\bvllm/vllm-openai(?::[\w.-]{1,60})?"
    ),
    flags=_OWN | _MAYBE,
    variables=("VLLM_",),
    parse=parse_command,
)


def full_version(text: Fact[str]) -> Version | None:
    """All three parts of a version; None where there is none."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", text.value_or(""))
    return tuple(int(part or 0) for part in found.groups()) if found else None


def lacking(word: str, version: Version | None) -> str:
    """Why a version does not have a flag or a variable; empty where it has it, or tells no version and is new."""
    since, until = SINCE.get(word, (0,)), UNTIL.get(word)
    if until and (version is None or version >= until):
        return f"vLLM has no {word} since {_dotted_version(until)}"
    if version is not None and version < since:
        return f"vLLM {_dotted_version(version)} has no {word}, which came with {_dotted_version(since)}"
    return ""


def _dotted_version(version: Version) -> str:
    return ".".join(map(str, version))


def with_defaults(runtime: Runtime) -> Runtime:
    """The runtime with what its version does by default."""
    version = (full_version(runtime.version) or ())[:2]
    if not version:
        return runtime
    changes: dict[str, Any] = {}
    for name, (value, since, before) in DEFAULTS.items():
        if is_not_given(runtime.fact(name)):
            default = value if version >= since else before
            changes[name] = estimated_fact(default, f"default of vLLM {_dotted_version(version)}")
    kernel = runtime.compute.attention
    is_told = isinstance(runtime.compute.flash_attention, Known)
    if not is_told and isinstance(kernel, Known) and "FLASH" in kernel.value.upper():
        changes["flash_attention"] = reported_fact(value=True, source=kernel.source)
    return runtime.with_facts(**changes)


def without_dead_variable(runtime: Runtime) -> Runtime:
    """The runtime without a choice of attention that its version does not read."""
    version = full_version(runtime.version)
    source = getattr(runtime.compute.attention, "source", "")
    if version is None or version < ATTENTION_FLAG or not source.endswith("VLLM_ATTENTION_BACKEND"):
        return runtime
    why = "VLLM_ATTENTION_BACKEND is set, but vLLM does not read it since 0.15"
    return runtime.with_facts(attention=not_supported(why, "use --attention-backend"))
