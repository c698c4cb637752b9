"""A benchmark in the form of `llama-bench -o json`, so that tools that read that read ours.

The names and types are those of llama-bench. The speeds are this program's: of the tokens after the first, through the
server, with its sampler. Lengths are real counts, such as a prompt of 3,571 tokens; what is not known has the value
that llama-bench writes where nothing is set.
"""

from typing import Any

import msgspec

from unslow.facts.bench import Bench
from unslow.show._clean import as_json
from unslow.think.bench.llama_bench_rows import rows_of


def llama_bench_rows(bench: Bench) -> list[dict[str, Any]]:
    """One for each test, its fields in the order of llama-bench."""
    return [msgspec.json.decode(msgspec.json.encode(row)) for row in rows_of(bench)]


def render_llama_bench(bench: Bench) -> str:
    """The same as JSON."""
    return as_json(llama_bench_rows(bench))
