from unslow.catalog.prometheus import exporters
from unslow.fleet.queries import (
    PACKS,
    Options,
    all_queries,
    fill_expression,
    fold_series,
    mark_series,
    pack_query,
    parts,
    source_of,
)

MOST_QUERIES = 45


def test_matchers_and_the_window_go_into_every_selector():
    text = fill_expression('rate(a{}[W]) / rate(b{c="d"}[W])', 'x="y"', 900)
    assert text == 'rate(a{x="y"}[900s]) / rate(b{c="d",x="y"}[900s])'
    assert fill_expression("rate(a{}[W])", "", 900, 86400) == "rate(a[900s] offset 86400s)"


def test_a_subquery_has_a_bounded_number_of_steps():
    assert fill_expression("avg_over_time((a{} > 1)[W:S])", "", 900) == "avg_over_time((a > 1)[900s:60s])"
    assert fill_expression("avg_over_time((a{} > 1)[W:S])", "", 86400) == "avg_over_time((a > 1)[86400s:1440s])"


def test_braces_in_a_matcher_stay_in_their_quotes():
    assert fill_expression("a{}[W]", 'x="}{"', 60) == 'a{x="}{"}[60s]'


def test_replicas_are_deduplicated_before_ranks_are_summed():
    assert fold_series("a", "sum", ["dp"], ["tp"]) == "sum without (dp, tp) (max without (tp) (a))"
    assert fold_series("a", "sum", ["engine"]) == "sum without (engine) (a)"
    assert fold_series("a", "", ["engine"]) == "a"


def test_mark_label_names_the_reading():
    assert mark_series("a", "vllm.running.0") == 'label_replace(a, "unslow_is", "vllm.running.0", "", "")'


def test_step_share_divides_by_the_number_of_steps():
    assert (
        fill_expression("count_over_time((a{} >= 4)[W:S]) / N", "", 900) == "count_over_time((a >= 4)[900s:60s]) / 15"
    )
    assert (
        fill_expression("count_over_time((a{} >= 4)[W:S]) / N", "", 86400)
        == "count_over_time((a >= 4)[86400s:1440s]) / 60"
    )


def test_prometheus_divides_a_sum_by_its_count(wording):
    text = pack_query("requests", Options(), {"vllm"}).promql
    assert text.count("label_replace(") == 1
    assert "e2e_request_latency_seconds_sum[900s])) / (" in text
    assert "e2e_request_latency_seconds_count[900s])) >= 1)" in text
    wording(parts("engine", 900)["vllm.request_s.0"].source, tells=("vllm:e2e_request_latency_seconds", "15 min"))
    wording(parts("engine", 900)["vllm.prefix_hit_rate.0"].source, tells="15 min")


def test_source_names_metrics_and_aggregation(wording):
    assert source_of("avg_over_time(a:b{}[W]) / 100", 900) == "a:b, mean over 15 min"
    assert source_of("avg_over_time(a{}[W]) unless b{} >= 50", 900) == "a, mean over 15 min"
    wording(source_of("increase(a{}[W]) + increase(b{}[W])", 60), tells="1 min")


def test_queries_are_few_and_not_empty():
    queries = all_queries(Options())
    assert len(queries) <= MOST_QUERIES
    assert len({query.name for query in queries}) == len(queries)
    assert all(query.promql and query.why for query in queries)
    assert not any("_bucket" in query.promql for query in queries)
    assert len(all_queries(Options(compare_s=0))) == len(queries) - 2


def test_only_present_exporters_are_queried():
    names = {query.name for query in all_queries(Options(), {"llama_cpp"})}
    assert "busy" in names
    assert not names & {"token_gap", "gpu_memory", "host_cpu", "pods", "own_info", "engine_info"}
    assert "vllm" not in pack_query("load", Options(), {"llama_cpp"}).promql


def test_every_reading_is_in_exactly_one_query():
    asked = [quantity for _, of, words, _ in PACKS for quantity in words.split() if of != "pods"]
    assert len(set(asked)) == len(asked)
    known = {quantity for one in exporters().values() if one.of != "pods" for quantity in one.readings}
    assert known <= set(asked)


def test_every_selector_takes_the_matchers():
    for query in all_queries(Options(match='cluster="a"')):
        selectors = query.promql.count("{")
        assert selectors
        assert query.promql.count('cluster="a"}') == selectors, query.name


def test_mark_distinguishes_alternative_metrics(wording):
    told = parts("engine", 900)
    wording(told["vllm.cache_used.1"].source, tells="15 min")
    assert (told["vllm.cache_used.1"].quantity, told["vllm.cache_used.1"].rank) == ("cache_used", 1)
