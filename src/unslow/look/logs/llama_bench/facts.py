"""Rows of llama-bench as facts."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from unslow.facts.machine import Cpu, Gpu, Machine
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.units import GIB, MIB
from unslow.facts.values import NOT_LOOKED, Fact, estimated, reported
from unslow.look.logs.llama_bench.formats import Row
from unslow.look.logs.llama_cpp.model import parse_file_type

_WHOLE = re.compile(r"-?[0-9]{1,9}")
_LONG = re.compile(r"[0-9]{1,15}")
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ([MG])iB")
_PARAMETERS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ([MBT])\b")
_SCALES = {"M": 1e6, "B": 1e9, "T": 1e12}
_QUANT = re.compile(
    r"\b((?:I?Q\d|T?Q[12]_\d|BF16|F16|F32|all F32|MXFP4|NVFP4|TQ)"
    r"\S{0,40}(?: - \S{1,40}(?: bpw)?| mix\b.{0,80}| MoE)?)\s*$"
)


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _positive(text: str) -> int | None:
    number = _whole(text)
    return number if number and number > 0 else None


def _switch(text: str) -> bool | None:
    return {"0": False, "1": True, "on": True, "off": False, "true": True, "false": False}.get(text.casefold())


def _no_switch(text: str) -> bool | None:
    value = _switch(text)
    return None if value is None else not value


def _words(text: str) -> list[str] | None:
    return [word.strip() for word in text.split(",") if word.strip()] or None


_FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "n_gpu_layers": ("gpu_layers_set", lambda text: None if (n := _whole(text)) is None or n < 0 else n),
    "n_threads": ("threads", _positive),
    "n_batch": ("batch", _positive),
    "n_ubatch": ("ubatch", _positive),
    "type_k": ("kv_type_k", lambda text: text or None),
    "type_v": ("kv_type_v", lambda text: text or None),
    "flash_attn": ("flash_attention", _switch),
    "split_mode": ("split_mode", lambda text: text or None),
    "no_kv_offload": ("kv_offload", _no_switch),
    "load_mode": ("load_mode", lambda text: text or None),
    "use_mmap": ("load_mode", {"0": "none", "1": "mmap"}.get),
    "backends": ("backends", _words),
}


def runtime_of(row: Row) -> Runtime:
    """What the row was measured with."""
    facts: dict[str, Any] = {"name": reported("llama.cpp", row.where)}
    for column, (fact, value) in _FACTS.items():
        if column in row.columns and (read := value(row.columns[column])) is not None:
            facts[fact] = reported(read, row.where)
    if number := row.columns.get("build_number"):
        facts["version"] = reported(f"b{number}-{row.columns.get('build_commit', '')}".rstrip("-"), row.where)
    return Runtime(**facts)


def model_of(row: Row) -> Model:
    """The model as llama-bench describes it; sizes of the table have two digits."""
    described = row.columns.get("model") or row.columns.get("model_type", "")
    name, quant = split_model(described)
    path = row.columns.get("model_filename", "")
    return Model(
        name=reported(name, row.where) if name else NOT_LOOKED,
        path=reported(path, row.where) if path else NOT_LOOKED,
        quant=reported(parse_file_type(quant), row.where) if quant else NOT_LOOKED,
        weights_bytes=_weights(row),
        parameters=_parameters(row),
    )


def split_model(described: str) -> tuple[str, str]:
    """`llama 8B Q4_K - Medium` as name and quant."""
    quant = _QUANT.search(described.strip())
    return (described[: quant.start()].strip(), quant[1]) if quant else (described.strip(), "")


def _weights(row: Row) -> Fact[int]:
    exact = row.columns.get("model_size", "")
    if _LONG.fullmatch(exact):
        return reported(int(exact), row.where)
    size = _SIZE.search(row.columns.get("size", ""))
    return estimated(round(float(size[1]) * (GIB if size[2] == "G" else MIB)), row.where) if size else NOT_LOOKED


def _parameters(row: Row) -> Fact[int]:
    exact = row.columns.get("model_n_params", "")
    if _LONG.fullmatch(exact):
        return reported(int(exact), row.where)
    count = _PARAMETERS.search(row.columns.get("params", ""))
    return estimated(round(float(count[1]) * _SCALES[count[2]]), row.where) if count else NOT_LOOKED


def run_of(rows: Sequence[Row]) -> Run:
    """The speeds of the last settings, at the shallowest depth that was measured."""
    decode = [row for row in rows if row.generated and not row.prompt]
    prefill = [row for row in rows if row.prompt and not row.generated]
    facts: dict[str, Any] = {}
    if decode:
        row = min(reversed(decode), key=lambda row: row.depth)
        facts["decode_tokens_per_s"] = reported(row.speed, row.where)
        facts["depth_tokens"] = reported(row.depth + row.generated // 2, row.where)
    if prefill:
        row = min(reversed(prefill), key=lambda row: row.depth)
        facts["prefill_tokens_per_s"] = reported(row.speed, row.where)
    return Run(**facts)


def machine_of(row: Row) -> Machine:
    """JSON, CSV and SQL name the processor and the GPUs."""
    cpu, names = row.columns.get("cpu_info", ""), row.columns.get("gpu_info", "")
    gpus = tuple(
        Gpu(index=index, name=reported(name.strip(), row.where))
        for index, name in enumerate(names.split(",")[:64])
        if name.strip()
    )
    return Machine(
        cpu=Cpu(model=reported(cpu, row.where) if cpu else NOT_LOOKED),
        gpus=reported(gpus, row.where) if gpus else NOT_LOOKED,
    )
