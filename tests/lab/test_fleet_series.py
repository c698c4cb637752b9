"""The series of the test bed: as recorded, consistent, and the same however they are sent."""

import json
import struct

import numpy as np
import pytest
from lab.fleet.blocks import Span, backfill
from lab.fleet.engine import Engine
from lab.fleet.instance import Instance, Pod, targets
from lab.fleet.lines import Line, counter, exposed, gauge, placed
from lab.fleet.machines import H200, MI300X, Gpu, Host
from lab.fleet.prometheus import RECEIVES, started
from lab.fleet.remote_write import send, series_message, snappy
from lab.fleet.series_engines import engine_lines
from lab.fleet.series_gpu import gpu_lines
from lab.replay.answers import FOLDER
from tests.real_prometheus import prometheus_program, promtool

from unslow.look.server_answers import parse_metrics

ENGINE = Engine("a/model", running=10.0, gap_s=0.02, prefill_s=0.5, waiting=4.0)
END_S = 1_790_000_000.0
COUNTED = "count by (__name__, job, instance) (last_over_time({job=~'.+'}[6m]))"


def values(engine, seconds=0.0):
    return {(s.name, *sorted(s.labels.items())): s.value for s in parse(exposed(engine_lines(engine), seconds)).samples}


def parse(text):
    return parse_metrics(text, "a scrape")


def test_generated_vllm_series_match_the_recorded_ones():
    recorded = parse(json.loads((FOLDER / "vllm_busy" / "metrics.json").read_text())["text"]).samples
    built = parse(exposed(engine_lines(ENGINE), 0.0)).samples
    assert [(s.name, sorted(s.labels)) for s in built] == [(s.name, sorted(s.labels)) for s in recorded]
    assert {s.labels["model_name"] for s in built if "model_name" in s.labels} == {"a/model"}


def test_the_counters_of_an_engine_are_consistent():
    first, then = parse(exposed(engine_lines(ENGINE), 0.0)), parse(exposed(engine_lines(ENGINE), 100.0))

    def grown(name, **labels):
        return sum(then.values(name, **labels)) - sum(first.values(name, **labels))

    gap = grown("vllm:inter_token_latency_seconds_sum") / grown("vllm:inter_token_latency_seconds_count")
    assert gap == pytest.approx(0.02, rel=1e-4)
    requests = grown("vllm:request_success_total")
    assert requests / 100 * (0.5 + 0.02 * (ENGINE.answer_tokens - 1)) == pytest.approx(10.0, rel=1e-3)  # Little's law
    assert grown("vllm:generation_tokens_total") == pytest.approx(requests * ENGINE.answer_tokens, rel=1e-3)
    assert requests / 100 * grown("vllm:request_queue_time_seconds_sum") / requests == pytest.approx(4.0, rel=1e-2)
    assert grown("vllm:prompt_tokens_by_source_total") == pytest.approx(grown("vllm:prompt_tokens_total"), rel=1e-4)


@pytest.mark.parametrize("runtime", ["vLLM", "llama.cpp", "SGLang"])
def test_an_idle_engine_counts_nothing(runtime):
    idle = ENGINE._replace(running=0.0, waiting=0.0, runtime=runtime)
    assert values(idle) == values(idle, 1000.0)


def test_gpu_exporters_have_real_names_and_labels():
    nvidia = {line.name: line for line in gpu_lines(Gpu(H200, 3), "gpu-01", {"pod": "p", "namespace": "n"})}
    labels = nvidia["DCGM_FI_DEV_FB_USED"].labels
    assert (labels["gpu"], labels["Hostname"], labels["modelName"]) == ("3", "gpu-01", "NVIDIA H200")
    assert (labels["pod"], labels["namespace"]) == ("p", "n")
    total = nvidia["DCGM_FI_DEV_FB_USED"].level + nvidia["DCGM_FI_DEV_FB_FREE"].level
    assert total == pytest.approx(143_771, abs=1)  # as nvidia-smi showed of the recorded one
    assert "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" not in {x.name for x in gpu_lines(Gpu(H200), "h", more=False)}
    assert {x.labels["hostname"] for x in gpu_lines(Gpu(MI300X), "h")} == {"h"}


def test_target_labels_win_unless_honored():
    lines = [gauge("a", {"pod": "of the GPU", "gpu": "0"}, 1.0)]
    (scraped,) = placed(lines, {"pod": "exporter", "job": "dcgm"})
    assert scraped.labels == {"exported_pod": "of the GPU", "gpu": "0", "job": "dcgm", "pod": "exporter"}
    (honored,) = placed(lines, {"pod": "exporter", "job": "dcgm"}, honor=True)
    assert honored.labels["pod"] == "of the GPU"


def test_a_line_has_the_same_values_singly_and_vectorized():
    moments = np.array([-90.0, 0.0, 33.5])
    for line in (gauge("a", {}, 5.0, 0.2), counter("b", {}, 0.7, 50.0), gauge("c", {}, 3.0)):
        assert list(line.over(moments)) == pytest.approx([line.at(float(moment)) for moment in moments])


def test_a_remote_write_message_is_protobuf_and_snappy():
    message = series_message(Line("up", {"job": "x"}, 1.0), b"")
    assert message == bytes([0x0A, 26]) + b"\x0a\x0e\x0a\x08__name__\x12\x02up" + b"\x0a\x08\x0a\x03job\x12\x01x"
    packed = snappy(b"z" * 70_000)
    assert packed[:3] == bytes([0xF0, 0xA2, 0x04])  # 70,000 in seven bits a byte
    assert packed[3:6] == bytes([61 << 2]) + struct.pack("<H", 65_535)
    assert len(packed) == 70_000 + 3 + 2 * 3


def test_sent_and_backfilled_series_arrive_in_prometheus(tmp_path):
    pod = Pod("llm", "one")
    one = Instance("one", ENGINE, (Gpu(H200),), Host("h"), pod)
    shown, span = list(targets([one])), Span(END_S - 300, END_S, 15.0)
    series = backfill(promtool(), tmp_path / "data", shown, span)
    with started(prometheus_program(), tmp_path, data=tmp_path / "data") as filled:
        past = filled.ask(COUNTED, END_S)
        rate = filled.ask("rate(vllm:generation_tokens_total[4m])", END_S)
    with started(prometheus_program(), tmp_path / "two", flags=RECEIVES) as receiving:
        assert send(receiving.url, shown, span) == series
        assert receiving.ask(COUNTED, END_S) == past
        (gpu,) = receiving.ask('DCGM_FI_DEV_SM_CLOCK{pod="one"}', END_S)
    assert float(rate[0]["value"][1]) == pytest.approx(ENGINE.tokens_per_s, rel=1e-3)
    assert rate[0]["metric"]["instance"] == "h:8000"
    assert gpu["value"][1] == "1980"
