import json
import os

import pytest
from doubles import FakeSystem

from unslow.facts.values import Known, Unknown
from unslow.look.bench.trials.observations import HOST_SLICES, generates, perform_host
from unslow.look.bench.trials.server_work import Decoding, Work
from unslow.look.requests import Plan, Target
from unslow.look.system import Answer
from unslow.look.system.live import LiveSystem

URL = "http://127.0.0.1:8080"


def at_work(tokens: int) -> Work:
    return Work("/slots", 1, 0, decoding={0: Decoding(7, tokens)})


def test_work_at_both_ends_of_an_interval_means_generating():
    assert generates(at_work(5), at_work(50))
    assert not generates(at_work(0), at_work(50))
    assert not generates(None, at_work(50))
    assert not generates(Work("/slots", 0, 0), at_work(50))
    assert generates(Work("/metrics", 1, 0, tokens=5), Work("/metrics", 1, 0, tokens=9))
    assert not generates(Work("/metrics", 1, 0, tokens=5), Work("/metrics", 1, 0, tokens=5))
    assert generates(Work("/metrics", 1, 0, tokens_per_s=5), Work("/metrics", 1, 0, tokens_per_s=5))


def test_a_grown_token_counter_means_generating():
    assert generates(Work("/metrics", 0, 0, tokens=5), Work("/metrics", 0, 0, tokens=9))
    assert not generates(Work("/metrics", 0, 0, tokens=9), Work("/metrics", 0, 0, tokens=5))  # started again


class Counting(LiveSystem):
    """A vLLM whose counters stand at the next pair at each look: requests that run, tokens generated."""

    def __init__(self, *looks: tuple[int, int]) -> None:
        super().__init__()
        self._looks = iter(looks)

    def request(self, method, url, body=None, headers=None, timeout_s=0.0):
        assert (method, url) == ("GET", f"{URL}/metrics")
        running, tokens = next(self._looks)
        text = f"vllm:num_requests_running {running}\nvllm:generation_tokens_total {tokens}\n"
        return Answer(200, text.encode())


def watched(*looks: tuple[int, int]):
    assert len(looks) == HOST_SLICES + 1
    return perform_host(
        Counting(*looks), Target(URL, runtime="vLLM", pid=os.getpid()), Plan(watch_s=1.2), lambda *_: None
    )


def seconds_of(run, phase: str) -> float:
    return sum(seen.seconds for seen in run.telemetry.need().phases if seen.phase == phase)


def test_decode_seconds_cover_the_intervals_with_new_tokens():
    run = watched((0, 100), (8, 300), (8, 500), (0, 520), (0, 520), (0, 520), (0, 700))
    assert seconds_of(run, "decode") == pytest.approx(4 * 0.2, abs=0.15)
    assert seconds_of(run, "idle") > 0.2
    assert "driver" in getattr(run.gpus, "why", "driver")
    assert run.own_cpus.source == "sampled while generating"
    assert "during the sampling" in run.others_cpus.source


def test_without_new_tokens_there_is_no_decode_phase(wording):
    run = watched(*[(0, 100)] * 7)
    assert seconds_of(run, "decode") == 0
    wording(run.gpus.why)


def test_a_slow_server_is_decoding_between_its_rare_tokens():
    run = watched((1, 100), (1, 100), (1, 101), (1, 101), (1, 101), (1, 102), (1, 102))
    assert seconds_of(run, "decode") == pytest.approx(1.2, abs=0.2)
    assert "while generating" in run.own_cpus.source


def test_the_host_trial_does_not_watch_a_remote_server():
    run = perform_host(LiveSystem(), Target("http://192.0.2.1:8080"), Plan(), lambda *_: None)
    assert isinstance(run.others_cpus, Unknown)
    assert "another machine" in run.telemetry.why


def test_the_host_trial_samples_this_machine_without_sending_requests():
    run = perform_host(LiveSystem(), Target("http://127.0.0.1:9"), Plan(watch_s=0.3), lambda *_: None)
    assert isinstance(run.others_cpus, Known)
    assert "during the sampling" in run.others_cpus.source
    assert run.telemetry.need().samples >= 1
    assert isinstance(run.gpus, Unknown)
    assert isinstance(run.own_cpus, Unknown)


def test_the_host_trial_reports_a_missing_gpu_driver_for_a_busy_server():
    slots = [{"id": 0, "is_processing": True, "id_task": 7, "next_token": {"n_decoded": 9}}]
    door = FakeSystem(http={f"GET {URL}/slots": Answer(200, json.dumps(slots).encode())})
    run = perform_host(door, Target(URL), Plan(), lambda *_: None)
    assert "driver" in run.gpus.why
    assert all(sent.startswith("GET") for sent, _ in door.sent)
