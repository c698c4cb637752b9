"""Members of a real Prometheus with backfilled series: every way in which labels join, fold or contradict."""

import time

import pytest
from lab.fleet.prometheus import started
from tests.fleet.scenarios import NAME, SCENARIOS
from tests.fleet.told_series import write_blocks
from tests.real_prometheus import prometheus_program, promtool

from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.fleet.members import read_members
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.queries import Options, all_queries
from unslow.fleet.snapshots import snapshot_of


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a Prometheus that has every scenario."""
    folder = tmp_path_factory.mktemp("members")
    write_blocks(promtool(), folder / "data", SCENARIOS, time.time())
    with started(prometheus_program(), folder, data=folder / "data") as running:
        yield running.url


@pytest.fixture
def read(server):
    def reading(scenario, **options):
        with Prometheus(Access(url=server)) as prometheus:
            found = read_members(prometheus, Options(match=f'scenario="{scenario}"', **options))
            assert not prometheus.statements()
            return found

    return reading


def said(found):
    return " | ".join(f"{one.kind}: {one.text}" for one in found.statements)


def test_pod_gets_its_gpu_node_limits_and_version(read):
    (member,) = read("kubernetes").members
    assert (member.key, member.model, member.host_name) == (f"llm/{NAME}", "llama", "gpu-01")
    (gpu,) = member.gpus
    assert (gpu.index, gpu.name, gpu.vendor) == (0, "NVIDIA L4", "NVIDIA")
    assert gpu.readings["vram_total_bytes"].value == 23_000 * 2**20
    assert member.host["quota_cpus"].value == 4
    assert member.host["memory_total_bytes"].value == 64e9
    assert member.host["busy_cpus"].value == pytest.approx(1.0)
    assert (member.version, member.version_before) == ("0.10.1", "0.9.2")


def test_new_version_is_compared_with_earlier_pods(read):
    (member,) = read("kubernetes").members
    assert member.engine["token_gap_s"].value == pytest.approx(0.02)
    assert member.engine["token_gap_before_s"].value == pytest.approx(0.01)
    assert member.engine["token_gap_before_s"].source.endswith("24 h before")
    assert member.engine["running_before"].value == 4


def test_throttle_bits_become_shares_and_clocks_are_under_load(read):
    gpu = read("kubernetes").members[0].gpus[0]
    assert gpu.readings["thermal_throttled"].value == pytest.approx(0.5, abs=0.08)
    assert gpu.readings["power_throttled"].value == pytest.approx(0.5, abs=0.08)
    assert gpu.readings["clock_hz"].value == 2000e6
    assert gpu.readings["busy"].value == pytest.approx(0.5, abs=0.05)


def test_idle_gpu_clock_is_not_a_clock_under_load(read):
    (member,) = read("resting").members
    assert member.gpus[0].readings["clock_hz"] == (300e6, "DCGM_FI_DEV_SM_CLOCK, mean over 15 min")
    assert "while busy" in read("kubernetes").members[0].gpus[0].readings["clock_hz"].source
    assert isinstance(snapshot_of(member).subjects[0].run.gpus.value[0].clock_hz, Unknown)


def test_counter_readings_name_their_source(read, wording):
    engine = read("alone").members[0].engine
    assert engine["generated_tokens_per_s"].value == pytest.approx(100.0)
    assert engine["tokens_counted"].value == pytest.approx(90_000, rel=0.01)
    wording(engine["token_gap_s"].source, tells="15 min")
    assert engine["running"] == (4.0, "vllm:num_requests_running, mean over 15 min")


def test_engines_sharing_a_host_get_no_guessed_gpus(read, wording):
    found = read("sharing")
    assert [member.gpus for member in found.members] == [(), ()]
    wording(found.members[0].missing["gpus"], tells=("2 engines", "gpu-01"))
    assert found.members[0].host["memory_total_bytes"].value == 64e9
    wording(said(found))


def test_pod_without_assigned_gpus_gets_none_of_its_node(read, wording):
    (member,) = read("given_to_others").members
    assert member.gpus == ()
    wording(member.missing["gpus"], tells=("gpu-01", str(NAME)))


def test_gpu_ids_label_assigns_gpus(read):
    members = read("shared_and_told").members
    assert [[gpu.index for gpu in member.gpus] for member in members] == [[1], [0]]


def test_single_engine_gets_every_gpu_of_its_host(read, wording):
    (member,) = read("alone").members
    assert [gpu.index for gpu in member.gpus] == [0, 1]
    assert [*member.missing] == ["host"]
    wording(member.missing["host"])


@pytest.mark.parametrize(("scenario", "words"), [("replicas", "Prometheus"), ("two_jobs", "job")])
def test_engine_scraped_twice_counts_once(read, scenario, words, wording):
    found = read(scenario)
    (member,) = found.members
    assert member.engine["generated_tokens_per_s"].value == pytest.approx(100.0)
    wording(said(found), tells=str(words))


def test_two_models_behind_one_address_are_two_engines(read):
    found = read("gateway")
    assert {member.model for member in found.members} == {"model-a", "model-b"}
    assert len({member.key for member in found.members}) == 2
    assert "duplicates" not in said(found)


def test_data_parallel_ranks_are_summed(read):
    (member,) = read("data_parallel").members
    assert member.engine["generated_tokens_per_s"].value == pytest.approx(200.0)
    assert member.engine["running"].value == 8
    assert member.engine["cache_used"].value == 0.5
    assert member.engine["token_gap_s"].value == pytest.approx(0.02)


def test_identical_tensor_parallel_ranks_are_not_summed(read):
    (member,) = read("sglang").members
    assert member.engine["running"].value == 6
    assert member.engine["cache_used"].value == pytest.approx(0.3)
    assert member.engine["generated_tokens_per_s"] == (
        pytest.approx(50.0),
        "sglang:generation_tokens_total, per second over 15 min",
    ), "streamed or not"
    assert member.engine["prompt_tokens_per_s"].value == pytest.approx(60.0), "those that were computed"
    assert member.engine["prompt_tokens"].value == pytest.approx(300.0)
    assert member.engine["answer_tokens"].value == pytest.approx(150.0)


def test_counters_written_by_two_targets_are_discarded(read, wording):
    found = read("falling")
    (member,) = found.members
    assert "generated_tokens_per_s" not in member.engine
    assert "token_gap_s" not in member.engine
    assert member.engine["running"].value == 4
    wording(member.doubts[0])
    wording(said(found))


def test_restart_is_stated_and_rates_stay_correct(read, wording):
    found = read("restarted")
    (member,) = found.members
    wording(member.doubts)
    assert member.engine["generated_tokens_per_s"].value == pytest.approx(100.0, rel=0.05)
    wording(said(found))


def test_engine_that_disappeared_is_stated(read, wording):
    found = read("gone")
    wording(found.members[0].doubts[0])
    wording(said(found))


def test_down_engine_differs_from_removed_engine(read):
    (down,), (gone,), (half,) = (read(name).members for name in ("went_down", "gone", "half"))
    assert down.down.startswith("it is down: its last scrapes failed; up for 5"), "half of it"
    assert (gone.down, half.down) == ("", "")


def test_engine_with_failed_scrapes_is_stated(read, wording):
    found = read("half")
    assert found.members[0].engine["up"].value == pytest.approx(0.5, abs=0.05)
    wording(said(found))


def test_the_same_pod_in_two_clusters_is_two_engines_with_a_gpu_each(read):
    members = read("clusters").members
    assert [member.key for member in members] == [f"llm/{NAME} ({name})" for name in ("east", "west")]
    assert [member.engine["token_gap_s"].value for member in members] == pytest.approx([0.01, 0.03])
    assert [member.gpus[0].identity for member in members] == ["GPU-east-gpu-0", "GPU-west-gpu-0"]
    assert [member.version_before for member in members] == ["0.9.2", "0.8.5"]
    assert [member.engine["token_gap_before_s"].value for member in members] == pytest.approx([0.02, 0.06])
    assert [member.own.verdict for member in members] == ["slow", "normal"]
    assert [member.own.age_s for member in members] == pytest.approx([60, 6000], abs=300)
    (west,) = read("clusters", engines='cluster="west"').members
    assert west.labels["cluster"] == "west"


def test_older_vllm_metric_names_are_read(read):
    engine = read("old_vllm").members[0].engine
    assert engine["cache_used"] == (0.25, "vllm:gpu_cache_usage_perc, mean over 15 min")
    assert engine["token_gap_s"].value == pytest.approx(0.02)


def test_engines_without_a_model_are_stated_once(read, wording):
    found = read("nameless")
    labels = [one for one in found.statements if one.kind == "labels"]
    wording([one.text for one in labels])
    assert labels[0].instances == 2
    assert "--join model=LABEL" in labels[0].hint
    assert [member.model for member in read("nameless", join="model=instance").members] == ["a:1", "b:1"]


def test_other_gpu_exporters_and_unslow_exporter_are_read(read):
    box, only, red = read("others").members
    assert (box.gpus[0].name, box.gpus[0].driver, box.gpus[0].readings["power_throttled"].value) == (
        "NVIDIA L4",
        "580.1",
        1,
    )
    assert box.engine["decode_tokens_per_busy_s"].value == pytest.approx(50.0)
    assert red.gpus[0].vendor == "AMD"
    assert red.gpus[0].readings["clock_hz"].value == 1001e6
    assert red.gpus[0].readings["vram_total_bytes"].value == 196_592 * 2**20
    assert (red.model, red.version, red.own.verdict) == ("gemma", "b6000", "slow")
    assert red.own.findings["weights_spill_to_ram"] == pytest.approx(0.5, abs=0.05)
    assert red.own.costs_s == {"weights_spill_to_ram": 0.02}
    assert red.own.expected_tokens_per_s == (40, 50, 60)
    assert (only.key, only.engine) == ("red/llama.cpp:9999", {})
    assert "unslow exporter" in only.missing["engine"]


def test_engines_gone_since_the_comparison_are_stated(read, wording):
    wording(said(read("was_there")), tells="24")
    assert "not there now" not in said(read("was_there", compare_s=0))
    assert all(one.such_as for one in read("was_there").statements if "not there now" in one.text)


def test_empty_prometheus_names_the_metrics_it_looked_for(read):
    found = read("no such scenario")
    assert found.members == []
    assert "vllm:num_requests_running" in found.statements[0].hint


def test_too_many_series_are_refused_before_reading(server, wording):
    with Prometheus(Access(url=server)) as prometheus, pytest.raises(UserError) as error:
        read_members(prometheus, Options(most_series=5))
    wording(error.value.message, tells=" 5 ")
    assert "--match" in error.value.hint
    assert prometheus.queries_sent == 2


def test_queries_are_valid_and_constant_in_number(server):
    options = Options(match='scenario=~".+"', engines='job!=""', join="pod=my_pod,namespace=my_space")
    queries = all_queries(options)
    with Prometheus(Access(url=server)) as prometheus:
        assert [prometheus.instant(query.promql, about=query.name).failure for query in queries] == [""] * len(queries)
        read_members(prometheus, Options())
    assert prometheus.queries_sent == 1 + 2 * len(queries)
