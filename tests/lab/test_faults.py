"""The fault lab: faults are well formed, stages run and end, rows add up, recordings are clean."""

import os
import sys
import time
import tomllib
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from lab.faults.asked import USUAL, Asked, asked_in
from lab.faults.asking import ask, tokens
from lab.faults.control_groups import cpu_quota, cpuset, disk, memory
from lab.faults.diagnosing import Diagnosis
from lab.faults.every import every_fault, faults_of
from lab.faults.fault import Fault, Heard, Playing, SkippedError, Stage
from lab.faults.keeping import as_found
from lab.faults.measuring import decode, measured
from lab.faults.models import MODELS
from lab.faults.neighbours import clients, clocked, pausing_proxy, slow_proxy, steady
from lab.faults.playing import Place, played
from lab.faults.recordings import cleaned, expectation, family, without_strangers
from lab.faults.rows import Row, append, predicted, read_rows, row_of, table, totals, unexplained
from lab.replay import serve

from unslow.look.launch.server import free_port
from unslow.think.causes import all_causes

ROOT = Path(__file__).parents[2]
FAULTS = every_fault()
SLOW = Fault("slow", "made slow", ("cpu",), "m", Stage(), "cpu_contended", ("swapping",), cure=Stage())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.where[0]}_{f.name}")
def test_every_fault_names_existing_causes(fault):
    assert {fault.cause, *fault.also} - {""} <= set(all_causes())
    # a load may also fail for what no cause is about, such as a damaged file
    assert bool(fault.cause) == (fault.verdict == "slow") or fault.verdict == "failed"
    assert (fault.cure is not None) == (fault.verdict == "slow") or fault.verdict == "failed"
    assert fault.what


def test_there_are_enough_unique_faults_and_healthy_controls():
    for where in ("cpu", "gpu"):
        assert len(faults_of(where)) == sum(where in fault.where for fault in FAULTS)
    healthy = [fault for fault in FAULTS if not fault.cause]
    assert len(FAULTS) - len(healthy) >= 30
    assert len(healthy) >= 10


def test_models_of_the_cpu_faults_can_be_generated():
    named = {stage.model or fault.model for fault in FAULTS if "cpu" in fault.where for stage in (fault.stage,)}
    assert named <= set(MODELS)
    assert MODELS["draft"].form.vocabulary == MODELS["small"].form.vocabulary


@pytest.fixture
def place(tmp_path):
    """A server that replays recorded answers stands for llama-server; how it is started and ended is what is tested."""
    program = tmp_path / "bin" / "llama-server"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = --port ] && port=$2; shift; done\ncd {ROOT}\n'
        f'exec {sys.executable} -m lab.replay llama_cpp --port "$port"\n'
    )
    program.chmod(0o755)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    return Place(program.parent, tmp_path, free_port(), tmp_path)


def test_surroundings_of_a_server_are_undone_in_reverse_order(place):
    done = []

    def step(name):
        @contextmanager
        def around(playing):
            done.append(f"{name} {'while it runs' if playing.pid else 'before'}")
            try:
                yield
            finally:
                done.append(f"{name} undone, server {'alive' if _alive(playing.pid) else 'ended'}")

        return around

    stage = Stage(around=(step("around"),), beside=(step("beside"),))
    with suppress(KeyboardInterrupt), played(SLOW, stage, place) as playing:
        assert playing.load_s is not None
        assert Path(playing.log).exists()
        raise KeyboardInterrupt
    assert done[:2] == ["around before", "beside while it runs"]
    assert done[2:] == ["beside undone, server alive", "around undone, server ended"]
    assert not _alive(playing.pid)
    assert not Path(playing.scratch).exists()


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_that_fails_to_load_is_run_but_not_measured(place):
    (place.servers / "llama-server").write_text("#!/bin/sh\necho out of memory; exit 1\n")

    def beside(_playing):
        raise AssertionError("nobody is there to be asked")

    with played(SLOW, Stage(beside=(beside,)), place) as playing:
        assert playing.load_s is None
        assert Path(playing.log).read_text() == "out of memory\n"
        assert measured("decode", playing) is None


def test_a_missing_program_or_model_is_skipped_with_a_reason(place, wording):
    with pytest.raises(SkippedError) as no_program:
        place.program("llama-server-generic")
    wording(str(no_program.value), tells="llama-server-generic")
    with pytest.raises(SkippedError) as no_model:
        place.model("other")
    wording(str(no_model.value), tells=("other.gguf", "python -m lab.faults --make-models"))
    with pytest.raises(SkippedError), played(replace(SLOW, model="other"), Stage(), place):
        pass


def test_an_answer_is_timed_by_the_client():
    with serve("llama_cpp", tokens_per_s=200.0) as url:
        heard = ask(url, tokens(8), 24)
        assert heard.tokens == 24
        assert heard.tokens_per_s > 0
        assert decode(url) > 0


def test_the_slow_proxy_delays_chunks_and_requests():
    with serve("llama_cpp", tokens_per_s=500.0) as url:
        playing = _playing(url)
        with slow_proxy(0, 0.02, late_s=0.3)(playing):
            heard = ask(playing.diagnose_url, tokens(8), 64)
    assert heard.first_token_s > 0.3
    assert heard.seconds > 5 * 0.02


def test_the_pausing_proxy_pauses_in_mid_stream():
    with serve("llama_cpp", tokens_per_s=2000.0) as url:
        playing = _playing(url)
        with pausing_proxy(0, 4, 0.2)(playing):
            heard = ask(playing.diagnose_url, tokens(8), 64)
    assert heard.tokens == 64
    assert heard.first_token_s + heard.seconds > 0.2


def test_clients_keep_their_answers_and_end():
    with serve("llama_cpp", tokens_per_s=500.0) as url:
        playing = _playing(url)
        with clients(2)(playing):
            assert playing.clients == 2
            end = time.monotonic() + 20
            while len(playing.heard) < 2 and time.monotonic() < end:
                time.sleep(0.05)
            assert len(playing.heard) >= 2


def _playing(url):
    return Playing(url, int(url.rpartition(":")[2]), "/scratch/one", ["llama-server"], {}, "/models")


def test_a_clock_at_the_start_changes_the_prefix_and_one_at_the_end_keeps_it():
    moved, kept = [clocked(0, turn)[0] for turn in (0, 1)], [steady(0, turn)[0] for turn in (0, 1)]
    assert moved[0][:8] != moved[1][:8]
    assert kept[0][:512] == kept[1][:512]
    assert moved[0][8:520] == moved[1][8:520]


def test_limits_are_written_for_both_cgroup_versions(tmp_path):
    assert cpu_quota(1.5).v1 == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}
    assert cpu_quota(1.5).v2 == {"cpu.max": "150000 100000"}
    assert cpuset("0").v1["cpuset.mems"] == "0"
    assert memory(1024).v2 == {"memory.max": "1024"}
    device = tmp_path.stat().st_dev
    assert disk(5, str(tmp_path)).v2 == {"io.max": f"{os.major(device)}:{os.minor(device)} rbps=5"}


REPORT = {
    "verdict": "slow",
    "phase": "decode",
    "measured": {"decode_tokens_per_s": 20.0},
    "expected": {"achievable": {"decode_tokens_per_s": {"low": 30, "mid": 40, "high": 50}}},
    "budget": [
        {"phase": "decode", "part": "weights", "seconds": 0.04},
        {"phase": "decode", "part": "unexplained", "seconds": 0.01},
        {"phase": "prefill", "part": "unexplained", "seconds": 9.0},
    ],
    "findings": [
        {"cause": "cpu_contended", "fixes": [{"predicted": {"prefill_tokens_per_s": 300.0}}]},
        {"cause": "swapping", "fixes": []},
    ],
    "cannot_tell": [{"cause": "queueing"}],
}


def test_a_row_says_whether_the_first_cause_is_right():
    row = row_of(SLOW, "cpu", Diagnosis(REPORT, 12.34))
    assert (row.right, row.strays, row.diagnosed) == (True, [], ["cpu_contended", "swapping"])
    assert (row.predicted_after, row.reported_before, row.cannot_tell) == (40.0, 20.0, ["queueing"])
    other = row_of(replace(SLOW, cause="swapping", also=()), "cpu", Diagnosis(REPORT, 1.0))
    assert (other.right, other.strays) == (False, ["cpu_contended"])
    assert not row_of(replace(SLOW, verdict="failed"), "cpu", Diagnosis(REPORT, 1.0)).right


def test_a_missing_diagnosis_is_wrong_and_says_why():
    row = row_of(SLOW, "cpu", Diagnosis({}, 3.0, "it said nothing"))
    assert (row.right, row.verdict, row.trouble) == (False, "", "it said nothing")
    assert not row_of(replace(SLOW, cause="", verdict="normal"), "cpu", Diagnosis({}, 3.0, "x")).right


def test_the_prediction_is_the_achievable_speed_or_that_of_the_first_fix():
    assert predicted(REPORT, "prefill") == 300.0
    assert predicted(REPORT, "load") is None
    assert unexplained(REPORT) == pytest.approx(0.2)
    assert unexplained({}) is None


def test_rows_are_written_read_and_counted(tmp_path, wording):
    path = tmp_path / "rows.jsonl"
    good = row_of(SLOW, "cpu", Diagnosis(REPORT, 1.0))
    good.measured_before, good.measured_after, good.error = 20.0, 50.0, -0.2
    append(replace_row(good, right=False), path)
    append(good, path)
    append(Row(name="h", where="cpu", what="nothing", cause="", verdict="normal", right=True), path)
    append(Row(name="s", where="cpu", what="-", cause="swapping", skipped="not root"), path)
    rows = read_rows(path)
    assert [row.name for row in rows] == ["slow", "h", "s"]
    wording(totals(rows), tells=("1 of 1", "20% of 1"))
    wording(table(rows), about="not root")


def replace_row(row, **changes):
    return Row(**{**{name: getattr(row, name) for name in Row.__struct_fields__}, **changes})


def test_the_expectation_of_a_recording_is_valid_toml():
    assert tomllib.loads(expectation(SLOW)) == {
        "verdict": "slow",
        "first_cause": "cpu_contended",
        "also": ["swapping"],
        "what": "made slow",
    }


def test_local_paths_are_replaced_everywhere():
    names = {"/var/scratch/one": "/srv/lab", "/root": "/home/user"}
    assert cleaned("-m /var/scratch/one/m.gguf /root/b", names) == "-m /srv/lab/m.gguf /home/user/b"
    assert cleaned("/proc/12/root/var/scratch/one/a", names) == "/proc/12/root/srv/lab/a"
    assert cleaned("/proc/12/root/root/.cache /proc/self/root/etc", names) == (
        "/proc/12/root/home/user/.cache /proc/self/root/etc"
    )
    assert cleaned("/rooted", names) == "/rooted"
    assert cleaned("-m\\u0000/root/m.gguf", names) == "-m\\u0000/home/user/m.gguf"


def test_logs_of_other_servers_are_left_out():
    lines = [
        '{"question": "head /proc/12/root/a.log"}\n',
        '{"question": "head /proc/13/root/b.log"}\n',
        '{"question": "file /proc/13/stat"}\n',
    ]
    assert without_strangers("".join(lines), {12}) == lines[0] + lines[2]
    assert family(os.getpgid(0)) >= {os.getpid()}


def test_tokens_per_s_exclude_the_first_token():
    assert Heard(0.0, 0.1, 11, 1.0).tokens_per_s == 10.0
    assert Heard(0.0, 0.1, 1, 0.0).tokens_per_s == 0.0


def test_first_token_prompt_size_comes_from_the_report():
    machines = ROOT / "tests" / "machines"
    assert asked_in(machines / "lab_cpu_prompt_cache_off", ["prompt_reprocessed"]) == Asked(992, 264)
    assert asked_in(machines / "lab_cpu_slow_client", ["client_overhead"]) == Asked(0, 118)
    assert asked_in(machines / "lab_cpu_clock_in_prompt", ["prompt_reprocessed"]) == USUAL
    assert asked_in(machines / "gone", []) == USUAL


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (["cpu_contended", "swapping"], True), (["swapping", "cpu_contended"], True), (["cpu_contended"], False),
        (["swapping"], False), (["queueing", "cpu_contended", "swapping"], False),
    ],
)  # fmt: skip
def test_with_either_both_causes_must_be_found_in_any_order(found, right):
    subject = {"verdict": "slow", "findings": [{"cause": cause, "fixes": [], "explains": []} for cause in found]}
    assert row_of(replace(SLOW, either=True), "cpu", Diagnosis(subject, 1.0)).right is right


def test_the_first_of_two_equal_causes_is_kept_with_its_machine():
    row = Row(name="slow", where="cpu", what="", cause="cpu_contended", diagnosed=["swapping", "cpu_contended"])
    kept = as_found(replace(SLOW, either=True), row)
    assert (kept.cause, kept.also) == ("swapping", ("cpu_contended",))
    assert as_found(SLOW, row) is SLOW
