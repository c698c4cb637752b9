"""Members of answers that a real Prometheus gave: a replayed vLLM, a real llama-server and a real node exporter."""

import pytest
from tests.fleet.recorded import Recorded

from unslow.catalog.prometheus import exporters
from unslow.facts.errors import UserError
from unslow.fleet.asking import Asking
from unslow.fleet.members import read_members
from unslow.fleet.queries import Options, all_queries

OPTIONS = Options(compare_s=960)


def test_three_real_targets_are_two_engines_on_one_host():
    found = read_members(Recorded("three_targets"), OPTIONS)
    vllm, llama = found.members
    assert (vllm.key, vllm.runtime, vllm.model) == ("127.0.0.1:18611", "vLLM", "tiny-llama")
    assert (llama.key, llama.runtime, llama.model) == ("127.0.0.1:18612", "llama.cpp", "SmolLM2-135M")
    assert vllm.host_name == llama.host_name == "box"
    assert vllm.host["memory_total_bytes"].value == 25274793984
    assert vllm.host is llama.host


def test_vllm_settings_are_read():
    vllm, _ = read_members(Recorded("three_targets"), OPTIONS).members
    assert vllm.info["num_gpu_blocks"] == "20"
    assert vllm.info["kv_cache_size_tokens"] == "2560"
    assert "engine" not in vllm.info
    assert vllm.engine["waiting"].value == 4
    assert vllm.engine["cache_used"].value == pytest.approx(0.8421, abs=0.05)
    assert vllm.engine["running_before"].value == 8


def test_llama_server_speed_comes_from_its_counters():
    _, llama = read_members(Recorded("three_targets"), OPTIONS).members
    assert llama.engine["tokens_counted"].value > 200
    assert 20 < llama.engine["decode_tokens_per_busy_s"].value < 500
    assert "token_gap_s" not in llama.engine
    assert llama.engine["running_spread"].value < 1


def test_few_tokens_give_no_speed():
    llama = {"instance": "127.0.0.1:18612", "job": "llama", "model": "SmolLM2-135M"}
    counted = {"llama_cpp.decode_tokens.0": 12.0, "llama_cpp.decode_busy_s.0": 0.1}
    few = [[{**llama, "unslow_is": mark}, value] for mark, value in counted.items()]
    _, llama = read_members(Recorded("three_targets", {"busy": few}), OPTIONS).members
    assert "decode_tokens_per_busy_s" not in llama.engine


def test_missing_gpu_exporter_is_stated(wording):
    found = read_members(Recorded("three_targets"), OPTIONS)
    wording(found.members[0].missing["gpus"])
    assert [(one.kind, one.instances) for one in found.statements] == [("duplicates", 1), ("missing", 2)]


def test_a_constant_number_of_queries_is_asked():
    prometheus = Recorded("three_targets")
    read_members(prometheus, OPTIONS)
    assert len(prometheus.asked) == len(set(prometheus.asked)) == 22


def test_queries_are_sent_in_the_order_of_use(monkeypatch):
    """Else answers would be kept in memory until somebody wants them."""
    prometheus, wanted, answer = Recorded("three_targets"), [], Asking.answer
    prometheus.answers["there"] = [[{"__name__": one.anchor}, 1.0] for one in exporters().values()]

    def noted(asking, name):
        wanted.append(name)
        return answer(asking, name)

    monkeypatch.setattr(Asking, "answer", noted)
    read_members(prometheus, OPTIONS)
    assert prometheus.asked == ["there", *wanted] == [query.name for query in all_queries(OPTIONS)]


def test_failed_query_is_stated_and_its_readings_missing():
    found = read_members(Recorded("three_targets", failing=("load", "host_memory")), OPTIONS)
    vllm, _ = found.members
    assert "running" not in vllm.engine
    assert vllm.engine["waiting"].value == 4
    assert vllm.missing["engine"] == "query failed: load"
    assert vllm.missing["host"] == "query failed: host_memory"
    assert not any("not answered" in one.text for one in found.statements)


def test_failed_engine_query_is_a_user_error():
    with pytest.raises(UserError, match="query timed out"):
        read_members(Recorded("three_targets", failing=("targets",)), OPTIONS)


def test_failed_count_query_asks_every_exporter(wording):
    known, found = (read_members(Recorded("three_targets", failing=failing), OPTIONS) for failing in ((), ("there",)))
    assert [one.engine for one in found.members] == [one.engine for one in known.members]
    wording(found.members[0].missing["gpus"])


def test_unknown_restarts_discard_counter_readings(wording):
    """Two targets that write one series look like a speed, unless somebody says how often the counters fell."""
    vllm, _ = read_members(Recorded("three_targets", failing=("starts",)), OPTIONS).members
    assert "generated_tokens_per_s" not in vllm.engine
    assert "token_gap_s" not in vllm.engine
    assert vllm.engine["waiting"].value == 4
    wording(vllm.doubts[0])


def test_repeated_counter_resets_discard_counter_readings():
    labels = {"instance": "127.0.0.1:18611", "job": "vllm", "unslow_is": "starts"}
    vllm, _ = read_members(Recorded("three_targets", {"starts": [[labels, 12.0]]}), OPTIONS).members
    assert "generated_tokens_per_s" not in vllm.engine
    assert "12 times" in vllm.doubts[0]


def test_router_metrics_are_not_an_engine():
    recorded = Recorded("three_targets")
    router = {"instance": "router:80", "job": "router", "server": "http://a:8000"}
    recorded.answers["targets"] = [
        *recorded.answers["targets"],
        [{**router, "unslow_is": "vllm.samples"}, 30.0],
        [{**router, "unslow_is": "vllm.age"}, 3.0],
    ]
    assert len(read_members(recorded, OPTIONS).members) == 2


def test_hostile_labels_are_sanitised():
    recorded = Recorded("three_targets")
    evil = {"instance": "\x1b[2Jhost:1", "job": "x" * 5000, "model": "a\nb"}
    recorded.answers["targets"] = [[{**evil, "unslow_is": "llama_cpp.samples"}, 30.0]]
    (member,) = read_members(recorded, OPTIONS).members
    assert member.key == "?[2Jhost:1"
    assert member.model == "a?b"
    assert max(map(len, member.labels.values())) <= 120


def test_old_newest_sample_is_a_doubt(wording):
    recorded = Recorded("three_targets")
    recorded.answers["targets"] = [
        [labels, 200.0 if labels["unslow_is"].endswith("age") else value]
        for labels, value in recorded.answers["targets"]
    ]
    found = read_members(recorded, OPTIONS)
    wording(found.members[0].doubts[0], tells="200 s")
    assert "skew" in [one.kind for one in found.statements]
