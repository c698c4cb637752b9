"""Two vLLM servers whose load changes every quarter of an hour, in a real Prometheus, with a known truth."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.fleet.blocks import make_blocks
from lab.fleet.prometheus import started
from tests.real_prometheus import prometheus_program, promtool

NAMES = ("a:8000", "b:8000")
SPAN_S, SCRAPE_S, STAY_S = 4 * 3600, 30, 900
START_S, EACH_S, FIRST_S, CACHE = 0.008, 0.001, 0.02, 0.01
"""A step takes 8 ms and 1 ms for each request, the first token 20 ms for each, and each holds 1 % of the cache."""


def loads(place):
    """Requests at once for each stay: from 1 to 16, in another order for each server."""
    return [1 + (7 * n + 5 * place) % 16 for n in range(SPAN_S // STAY_S)]


def samples(instance, place, start_s):
    """The series of one server as OpenMetrics, each with all its samples."""
    labels = f'{{engine="0",model_name="m",job="vllm",instance="{instance}"}}'
    counted = dict.fromkeys(("tokens", "gaps", "gap_s", "firsts", "first_s"), 0.0)
    lines: dict[str, list[str]] = {}
    for second in range(0, SPAN_S, SCRAPE_S):
        n = loads(place)[second // STAY_S]
        gap = START_S + EACH_S * n
        made, begun = SCRAPE_S * n / gap, SCRAPE_S * 0.5
        grown = {"tokens": made, "gaps": made, "gap_s": made * gap, "firsts": begun, "first_s": begun * FIRST_S * n}
        counted = {name: value + grown[name] for name, value in counted.items()}
        values = {
            "vllm:num_requests_running": n,
            "vllm:num_requests_waiting": 0,
            "vllm:kv_cache_usage_perc": CACHE * n,
            "vllm:generation_tokens_total": counted["tokens"],
            "vllm:inter_token_latency_seconds_sum": counted["gap_s"],
            "vllm:inter_token_latency_seconds_count": counted["gaps"],
            "vllm:time_to_first_token_seconds_sum": counted["first_s"],
            "vllm:time_to_first_token_seconds_count": counted["firsts"],
        }
        for name, value in values.items():
            lines.setdefault(name, []).append(f"{name}{labels} {value:.10g} {start_s + second:.3f}\n")
    return "".join(line for those in lines.values() for line in those)


@contextmanager
def two_servers(folder: Path) -> Iterator[str]:
    """The address of a Prometheus that has scraped both."""
    text, start_s = folder / "series.om", time.time() - SPAN_S
    text.write_text("".join(samples(name, place, start_s) for place, name in enumerate(NAMES)) + "# EOF\n")
    make_blocks(promtool(), text, folder / "data")
    with started(prometheus_program(), folder) as server:
        yield server.url
