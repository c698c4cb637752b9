import json

import pytest
from lab.replay.answers import FOLDER

from unslow.facts.values import Known, Origin, Unknown
from unslow.look.server_answers import MOST_SAMPLES, parse_metrics

REAL = json.loads((FOLDER / "vllm_busy" / "metrics.json").read_text())["text"]


def test_recorded_vllm_metrics_are_parsed():
    metrics = parse_metrics(REAL, "M", "vllm:")
    assert metrics.integer("vllm:num_requests_running") == Known(8, Origin.REPORTED, "M: vllm:num_requests_running")
    assert metrics.integer("vllm:num_requests_waiting_by_reason", reason="capacity").need() == 4
    assert 0 < metrics.largest_share("vllm:kv_cache_usage_perc").need() <= 1
    assert metrics.labels("vllm:cache_config_info")["block_size"] == "128"
    latency = metrics.ratio("vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count")
    assert latency.origin is Origin.ESTIMATED
    assert 0.001 < latency.need() < 1


def test_metrics_of_several_engines_are_combined():
    text = 'n{engine="0"} 2\nn{engine="1"} 3\nfull{engine="0"} 0.25\nfull{engine="1"} 0.75\n'
    metrics = parse_metrics(text, "M")
    assert metrics.integer("n").need() == 5
    assert metrics.largest_share("full").need() == 0.75


def test_the_first_existing_metric_name_is_used():
    metrics = parse_metrics("old 1\n", "M")
    assert metrics.integer("new", "old") == Known(1, Origin.REPORTED, "M: old")
    assert metrics.integer("newest") == Unknown("M has no newest")


def test_metric_labels_may_hold_any_characters():
    (sample,) = parse_metrics(r'x{a="say \"hi\", {b}",c="\\n"} 1e3 1700000000', "M").samples
    assert (sample.labels, sample.value) == ({"a": 'say "hi", {b}', "c": "\\n"}, 1000.0)


@pytest.mark.parametrize(
    "line",
    [
        "x NaN",
        "x +Inf",
        "x -1",
        "x",
        "x{",
        'x{a="b} 1',
        "x 1 2 3 " + "4" * 60,
        "1x 5",
        "# x 1",
        "x_bucket 1",
        "x" * 500,
    ],
)
def test_malformed_metric_lines_are_skipped(line):
    assert parse_metrics(line, "M").samples == ()


def test_metric_samples_are_bounded():
    assert len(parse_metrics("x 1\n" * (MOST_SAMPLES * 5), "M").samples) == MOST_SAMPLES
    assert parse_metrics('x{a="' + "b" * 10**6 + '"} 1', "M").samples == ()


def test_a_ratio_needs_a_count():
    metrics = parse_metrics("sum 0\ncount 0\nhuge 1e300\n", "M")
    assert isinstance(metrics.ratio("sum", "count"), Unknown)
    assert isinstance(metrics.ratio("sum", "nothing", 0), Unknown)
    assert isinstance(metrics.integer("huge"), Unknown)


def test_a_rate_uses_the_first_mean_with_enough_samples():
    text = "a_sum 1\na_count 2\nb_sum 5\nb_count 100\nc_sum 0\nc_count 100\n"
    metrics = parse_metrics(text, "/metrics")
    assert metrics.rate("a", "b", least=50).need() == 20
    assert isinstance(metrics.rate("a", "c", least=50), Unknown)


@pytest.mark.parametrize("value", ["1e308", "1e21", "1e-320", "1e-13"])
def test_impossible_metric_values_are_skipped(value):
    assert parse_metrics(f"llamacpp:tokens_predicted_seconds_total {value}\n", "M").samples == ()
    assert len(parse_metrics("now_ns 1.79e18\nnone 0\ntick 1e-9\n", "M").samples) == 3
