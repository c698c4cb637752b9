"""`unslow bench` from its arguments to its exit status, against replayed servers over real HTTP."""

import json
import signal
from pathlib import Path

import pytest
from lab.replay import serve

from unslow.__main__ import main
from unslow.commands.bench.bencher import Bencher

FAST = 800.0
TIMED = 200.0  # What the client times must be slower than a busy machine is late
QUICK = ("--quick", "--evict", "--tokens", "40")
OLLAMA = (*QUICK, "--model", "qwen3")


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSLOW_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


def bench(capsys, *words):
    status = main(["bench", *words])
    return status, capsys.readouterr()


def as_json(capsys, *words):
    status, said = bench(capsys, *words, "--json", "-q")
    return status, json.loads(said.out)


@pytest.mark.parametrize(("replayed", "model"), [("ollama", "qwen3"), ("lm_studio", ""), ("vllm", "")])
def test_every_runtime_gives_the_same_figures(capsys, replayed, model):
    with serve(replayed, tokens_per_s=TIMED) as url:
        status, found = as_json(capsys, url, *QUICK, "--model", model, "--hz", "0")
    assert status == 0
    assert found["schema"] == "unslow.bench/1"
    assert {"decode_tokens_per_s", "prefill_tokens_per_s", "time_to_first_token_s", "gap_p99_s"} <= set(
        found["figures"]
    )
    assert 100 < found["figures"]["decode_tokens_per_s"]["median"] < 40_000
    # An answer whose pieces come in a few heaps has no speed that a client could time: on a busy machine one may
    assert 4 <= found["figures"]["decode_tokens_per_s"]["count"] <= 6
    settles = {"settle"} if replayed == "ollama" else set()
    assert {done["case"] for done in found["passes"]} == {"warm-up", "short", "long"} | settles
    assert not found.get("failures")


def test_benchmark_is_stored_listed_compared_exported_and_removed(capsys, data):
    with serve("ollama", tokens_per_s=FAST) as url:
        words = (url, *OLLAMA, "--hz", "0")
        _, first = as_json(capsys, *words, "--label", "before", "-o", str(data / "b.json"))
        status, second = as_json(capsys, *words, "--compare", "--export", str(data / "lb.json"))
    assert second["compared"]["before"]["id"] == first["id"]
    assert (
        status == {"same": 0, "faster": 0, "slower": 1, "cannot_tell": 3}[second["compared"]["comparison"]["verdict"]]
    )
    assert json.loads((data / "b.json").read_text())["id"] == first["id"]
    assert any(row["n_gen"] for row in json.loads((data / "lb.json").read_text()))
    _, said = bench(capsys, "--list")
    assert first["id"] in said.out
    assert second["id"] in said.out
    assert bench(capsys, "--forget", "before")[0] == 0
    assert first["id"] not in bench(capsys, "--list")[1].out


@pytest.mark.parametrize(
    ("condition", "status"), [("decode > 1", 0), ("decode > 1000000", 1), ("decode >= 0.7 * last", 3)]
)
def test_requirement_sets_the_exit_status(capsys, condition, status):
    with serve("ollama", tokens_per_s=FAST) as url:
        found = as_json(capsys, url, *OLLAMA, "--hz", "0", "--require", condition)
    assert found[0] == status
    (requirement,) = found[1]["requirements"]
    assert requirement["because"]


def test_terminal_shows_figures_notes_and_requirements(capsys):
    with serve("ollama", tokens_per_s=FAST) as url:
        status, said = bench(capsys, url, *OLLAMA, "--require", "ttft < 60 s")
    assert status == 0
    assert "MEASURED" in said.out
    assert "Between tokens, p99" in said.out
    assert "✓ ttft < 60 s" in said.out
    assert "DURING THE RUN" in said.out
    assert "round 3 of 3" in said.err
    assert "left" in said.err


def test_series_is_written_as_csv(capsys, data):
    with serve("ollama", tokens_per_s=FAST) as url:
        words = (url, *OLLAMA, "--hz", "20", "-q")
        assert bench(capsys, *words, "--series", str(data / "s.csv"))[0] == 0
    rows = (data / "s.csv").read_text().splitlines()
    assert any("others_cpus" in row for row in rows[:3])
    assert len(rows) > 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing.gguf"], "not a running server"),
        (["http://127.0.0.1:9"], "nothing listens"),
        (["--sweep", "colour"], "is not a sweep"),
        (["--sweep", "users=-1"], "is not a sweep"),
        (["--sweep", "users=1e9"], "is not a sweep"),
        (["--sweep", "users=" + ",".join("1" * 100)], "too many values"),
        (["http://127.0.0.1:9", "--sweep", "threads"], "so unslow has to start one"),
        (["--require", "decode is good"], "is not a comparison"),
        (["--repeats", "-1"], "must be between"),
        (["--repeats", "0"], "must be between"),
        (["--tokens", "0"], "must be between"),
        (["--compare", "nobody"], "no saved benchmark 'nobody'"),
        (["--hz", "1000"], "must be between"),
        (["--format", "xml"], "no format"),
        (["--list", "--sweep", "users"], "cannot be combined"),
        (["--forget", "nobody"], "no saved benchmark"),
        (["--series", "samples.txt"], "must end in .csv or .arrow"),
        (["--output", "/no/such/folder/b.json"], "not writable"),
        (["--export", "/"], "not writable"),
        (["--import", "nowhere.json"], "nowhere.json"),
        (["--model", "a.gguf", "--command", "llama-server"], "mutually exclusive"),
        (["http://127.0.0.1:9", "--command", "llama-server"], "mutually exclusive"),
        (["--command", "no-such-server -m x.gguf"], "no-such-server"),
        (["--sweep", "threads", "--sweep", "users"], "run them separately"),
    ],
)
def test_invalid_arguments_are_one_line_with_a_hint(capsys, words, told):
    status, said = bench(capsys, *words)
    assert status == 2
    assert told in said.err
    assert "hint:" in said.err
    assert "Traceback" not in said.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_unwritable_output_does_not_lose_the_result(capsys):
    with serve("ollama", tokens_per_s=FAST) as url:
        status, said = bench(capsys, url, *OLLAMA, "--hz", "0", "--output", "/dev/full")
    assert status == 2
    assert "MEASURED" in said.out
    assert "/dev/full: No space left on device" in said.err


def test_comparison_without_an_earlier_benchmark_exits_3(capsys):
    with serve("ollama", tokens_per_s=FAST) as url:
        status, said = bench(capsys, url, *OLLAMA, "--hz", "0", "--compare", "LAST")
    assert status == 3
    assert "no earlier quick benchmark" in said.err


def test_impossible_sweep_does_not_lose_earlier_sweeps(capsys, wording):
    with serve("ollama", tokens_per_s=FAST) as url:
        words = (url, *OLLAMA, "--hz", "0", "--sweep", "turns=2", "--sweep", "users=5000")
        status, found = as_json(capsys, *words)
    assert status == 0
    assert [sweep["axis"] for sweep in found["sweeps"]] == ["turns"]
    wording(found["notes"][0], tells="5000")


def test_two_servers_are_asked_in_turns(capsys):
    with serve("ollama", tokens_per_s=FAST) as fast, serve("ollama", tokens_per_s=FAST / 4) as slow:
        words = (*OLLAMA, "--hz", "0")
        status, found = as_json(capsys, slow, "--against", fast, *words)
    assert status == 1
    assert found["compared"]["comparison"]["verdict"] == "slower"
    assert len({done["round"] for done in found["passes"]}) == 7


def test_server_that_always_fails_exits_2(capsys):
    with serve("ollama", tokens_per_s=FAST, fail="cut_at_once") as url:
        status, said = bench(capsys, url, *OLLAMA, "--hz", "0")
    assert status == 2
    assert "Traceback" not in said.err


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_and_sigterm_keep_what_was_measured(capsys, monkeypatch, which):
    ask, asked = Bencher.ask, []

    def interrupted(bencher, wanted):
        asked.append(wanted)
        if len(asked) > 8:
            signal.raise_signal(which)
        return ask(bencher, wanted)

    monkeypatch.setattr(Bencher, "ask", interrupted)
    before = {known: signal.getsignal(known) for known in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        with serve("ollama", tokens_per_s=FAST) as url:
            status, found = as_json(capsys, url, *OLLAMA, "--hz", "0", "--require", "decode > 1")
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
    assert status == 130
    assert found["interrupted"]
    assert len(found["passes"]) == 8
    assert found["figures"]["decode_tokens_per_s"]["count"] == 2
    assert f"{found['id']}" in bench(capsys, "--list")[1].out
    assert "interrupted" in bench(capsys, "--list")[1].out
