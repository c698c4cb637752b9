"""The catalogue of exporters: what it promises to whoever reads a fleet."""

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
def test_every_reading_is_a_quantity_with_expressions_that_can_be_narrowed(name, quantity):
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
def test_an_exporter_has_a_source_and_an_anchor_and_compares_what_it_reads(name):
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


def test_a_sum_has_its_count_by_the_same_metrics():
    for name, one in exporters().items():
        for quantity, (_, *texts) in one.readings.items():
            if quantity.endswith("_sum"):
                _, *counts = one.readings[quantity.replace("_sum", "_count")]
                assert [text.replace("_sum{", "_count{") for text in texts] == counts, f"{name}: {quantity}"


def test_every_reading_is_asked_for():
    asked = {(of, word) for _, of, words, _ in PACKS for word in words.split()}
    told = {(one.of, quantity) for one in exporters().values() for quantity in one.readings if one.of != "pods"}
    assert told <= asked


@pytest.mark.parametrize("name", [*ENGINE, *GPU, *HOST])
def test_every_quantity_is_of_use(name):
    """What nobody reads is not asked for: a reading of ten thousand instances costs a second."""
    assert any(f'"{name}"' in text for text in READERS)


def test_anchors_tell_exporters_apart():
    anchors = [one.anchor for one in exporters().values()]
    assert len(set(anchors)) == len(anchors)
    assert {one.runtime for one in exporters_of("engine").values()} == {"vLLM", "llama.cpp", "SGLang", "TGI", "Ollama"}
