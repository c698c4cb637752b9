"""The catalog of Prometheus exporters keeps the contract that the fleet relies on."""

import re
from pathlib import Path

import pytest

from unslow import fleet
from unslow.catalog.prometheus import exporters, exporters_of
from unslow.fleet.member import ENGINE, GPU, HOST
from unslow.fleet.queries import PACKS

MADE_OF = re.compile(
    r"(token_gap_s|first_token_s|queue_s|prefill_s|request_s|prompt_tokens|answer_tokens)_(sum|count)"
    r"|(decode|prefill)_(tokens|busy_s)|prefix_(hits|queries)|drafts_(accepted|made)|idle_cpus|swap_free_bytes"
    r"|vram_reserved_bytes|power_braked|reasons_told"
)
"""What readings are computed from."""
KNOWN = {"engine": ENGINE, "gpu": GPU, "host": HOST, "pods": HOST}
READING = ("discovery", "judging", "members", "reading", "snapshot_hardware", "snapshots", "capacity/*")
READERS = [path.read_text("utf-8") for name in READING for path in Path(fleet.__path__[0]).glob(f"{name}.py")]
NAMED = [(name, quantity) for name, one in exporters().items() for quantity in one.readings]


@pytest.mark.parametrize(("name", "quantity"), NAMED)
def test_every_reading_is_a_known_quantity_with_a_narrowable_expression(name, quantity):
    one = exporters()[name]
    fold, *texts = one.readings[quantity]
    assert fold in ("sum", "avg", "max", "min", "count", "")
    assert texts
    if one.of in KNOWN:
        assert quantity in KNOWN[one.of] or MADE_OF.fullmatch(quantity)
    for text in texts:
        metrics = re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?=\{)", text)
        assert metrics, "every selector has braces for the user's matchers"
        assert not any(metric.endswith("_bucket") for metric in metrics)
        assert "[W]" in text or "[W:S]" in text


@pytest.mark.parametrize("name", exporters())
def test_every_exporter_has_source_anchor_and_labels(name):
    one = exporters()[name]
    assert one.source
    assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", one.anchor)
    assert set(one.before) <= set(one.readings)
    if one.of == "engine":
        assert one.runtime in {"vLLM", "llama.cpp", "SGLang", "TGI", "Ollama"}
        assert set(one.labels.get("model", ())) <= set(one.own)
    if one.of == "gpu":
        assert {"index", "name", "identity"} <= set(one.labels)
        assert one.vendor
        assert not set(one.own) & {*one.labels["index"], *one.labels["identity"], *one.labels.get("part", ())}


def test_every_sum_has_a_count_of_the_same_metrics():
    for name, one in exporters().items():
        for quantity, (_, *texts) in one.readings.items():
            if quantity.endswith("_sum"):
                _, *counts = one.readings[quantity.replace("_sum", "_count")]
                assert [text.replace("_sum{", "_count{") for text in texts] == counts, f"{name}: {quantity}"


def test_every_reading_is_queried():
    asked = {(of, word) for _, of, words, _ in PACKS for word in words.split()}
    told = {(one.of, quantity) for one in exporters().values() for quantity in one.readings if one.of != "pods"}
    assert told <= asked


@pytest.mark.parametrize("name", [*ENGINE, *GPU, *HOST])
def test_every_quantity_is_used_by_the_fleet(name):
    """A reading of ten thousand instances costs a second: unused ones are not queried."""
    assert any(f'"{name}"' in text for text in READERS)


def test_anchors_are_unique_per_exporter():
    anchors = [one.anchor for one in exporters().values()]
    assert len(set(anchors)) == len(anchors)
    assert {one.runtime for one in exporters_of("engine").values()} == {"vLLM", "llama.cpp", "SGLang", "TGI", "Ollama"}
