"""The tests of llama-bench that a file holds, where they are about the model that is measured."""

from unslow.facts.errors import UserError
from unslow.facts.llama_bench import BenchRow
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.look.bench.llama_bench import parse_llama_bench
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text
from unslow.think.bench.llama_bench_step import generates

LARGEST_FILE_BYTES = 4 * 1024**2
_ALIKE = 0.05
"""llama-bench counts the tensors of a model; what else counts may add the header and the vocabulary."""
_HINT = "run `llama-bench -m MODEL -p 0 -n 128 -o json > FILE` on the same machine"


def read_tests(system: System, path: str, model: Model) -> tuple[BenchRow, ...]:
    """Those in which it generates and nothing else; UserError where there is none, or all are of another model."""
    try:
        text = read_text(system, path, LARGEST_FILE_BYTES)
    except LookError as error:
        raise UserError(f"{path} can't be read: {error.why}", _HINT) from error
    rows = tuple(row for row in parse_llama_bench(text, path) if generates(row))
    if not rows:
        raise UserError(f"{path} has no test of llama-bench in which it generates", _HINT)
    same = tuple(row for row in rows if not _other_model(row, model))
    if not same:
        raise UserError(f"{path} is about another model: {rows[0].model_type or rows[0].model_filename}", _HINT)
    return same


def _other_model(row: BenchRow, model: Model) -> bool:
    """Whether the sizes say so; a size that is not known says nothing."""
    here = model.weights_bytes.value_or(0)
    return row.model_size > 0 and here > 0 and not 1 - _ALIKE <= row.model_size / here <= 1 + _ALIKE


def set_up_otherwise(row: BenchRow, runtime: Runtime) -> list[str]:
    """Settings of which both are known, and which differ: the step is then not the server's own."""
    pairs = {
        "threads": (row.n_threads, runtime.threads.value_or(0)),
        "-ctk": (row.type_k, runtime.kv_type_k.value_or("")),
        "-ctv": (row.type_v, runtime.kv_type_v.value_or("")),
    }
    return [
        f"llama-bench ran with {name} {theirs}, the server with {ours}"
        for name, (theirs, ours) in pairs.items()
        if theirs and ours and theirs != ours
    ]
