import json
import subprocess

from tests.real_prometheus import promtool

from unslow.catalog.prometheus import exporters_of
from unslow.fleet.capacity.curves import curve_queries
from unslow.fleet.queries import Options

OPTIONS = Options(match='cluster="a"', engines='namespace="llm"')


def test_query_count_is_constant_and_covers_all_runtimes():
    queries = {query.name: query.promql for query in curve_queries(OPTIONS, 60.0)}
    assert len(queries) == 7
    anchors = [one.anchor for one in exporters_of("engine").values() if "running" in one.readings]
    metrics = ("vllm:num_requests_running", "llamacpp:requests_processing", "sglang:num_running_reqs")
    assert all(metric in queries["running"] for metric in metrics)
    assert len(anchors) == queries["running"].count("avg_over_time(")
    assert queries["uneasy"].count("stddev_over_time(") == len(anchors)
    assert "avg_over_time" not in queries["uneasy"]


def test_llama_cpp_token_gap_is_per_request():
    gap = {query.name: query.promql for query in curve_queries(Options(), 15.0)}["gap_s"]
    assert "llamacpp:tokens_predicted_seconds_total[15s]" in gap
    assert "inter_token_latency_seconds_sum[15s]" in gap


def test_every_selector_has_the_users_matchers():
    for query in curve_queries(OPTIONS, 60.0):
        assert query.promql.count("[60s]") == query.promql.count('cluster="a",namespace="llm"}[60s]')


def test_prometheus_parses_the_capacity_queries(tmp_path):
    rules = [{"record": f"a:{query.name}", "expr": query.promql} for query in curve_queries(OPTIONS, 60.0)]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "curves", "rules": rules}]}))
    checked = subprocess.run([promtool(), "check", "rules", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "7 rules found" in checked.stdout
