"""Ollama from API, processes and log together, with replayed API answers."""

import json
from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence, Known, Unknown
from unslow.look.processes import Process
from unslow.look.runtimes.ollama import read, read_url
from unslow.look.runtimes.ollama.log import parse_unit
from unslow.look.system import Answer, FinishedCommand, LookError

REPLAY = Path(__file__).parents[2] / "replay" / "ollama"
URL = "http://127.0.0.1:11434"
BLOB = "/usr/share/ollama/.ollama/models/blobs/sha256-a3de86cd1c132c822487ededd47a324c50491393e6565cd14bafa40d0b8e686f"
LOG = Path(__file__).parents[1] / "logs" / "ollama"


def replayed(url: str = URL) -> dict[str, Answer | LookError]:
    answers: dict[str, Answer | LookError] = {}
    for path in REPLAY.glob("*.json"):
        recorded = json.loads(path.read_text(encoding="utf-8"))
        method, _, place = recorded["request"].partition(" ")
        body = recorded["text"] if "text" in recorded else json.dumps(recorded["body"])
        answers[f"{method} {url}{place}"] = Answer(recorded.get("status", 200), body.encode())
    return answers


def service(cgroup: str = "0::/system.slice/ollama.service\n") -> FakeSystem:
    """`ollama serve` of 0.5, with one runner, in the journal of its unit."""
    command = f"/usr/local/bin/ollama runner --model {BLOB} --ctx-size 65536 --n-gpu-layers 20 --threads 8 --parallel 2"
    system = FakeSystem(http=replayed(), folders={"/proc": ["10", "11"]})
    for pid, parent, words in ((10, 1, "/usr/local/bin/ollama serve"), (11, 10, f"{command} --port 55002")):
        system.files[f"/proc/{pid}/comm"] = "ollama\n"
        system.files[f"/proc/{pid}/status"] = f"PPid:\t{parent}\nVmRSS:\t1024 kB\n"
        system.files[f"/proc/{pid}/cmdline"] = words.replace(" ", "\0") + "\0"
        system.files[f"/proc/{pid}/cgroup"] = cgroup
        system.files[f"/proc/{pid}/environ"] = LookError(f"/proc/{pid}/environ: not allowed")
    return system


def journal(text: str, *options: str) -> dict[str, FinishedCommand | LookError]:
    words = " ".join(("journalctl -u ollama.service --no-pager -o cat", *options))
    return {words: FinishedCommand(0, text, "")}


def test_an_ollama_url_gives_a_subject_per_loaded_model():
    first, second = read_url(FakeSystem(http=replayed()), URL, "")
    assert (first.runtime.name.need(), first.runtime.version.need()) == ("Ollama", "0.33.0")
    assert (first.model.name.need(), second.model.name.need()) == ("qwen3:8b", "llama3.2:3b")
    assert first.runtime.memory.vram_share.need() == pytest.approx(0.75, abs=1e-3)
    assert (second.runtime.memory.vram_share.need(), second.runtime.context.per_slot.need()) == (1, 4096)
    assert (first.model.layers.need(), first.model.kv_heads.need(), first.model.key_length.need()) == (36, 8, 128)
    assert (first.model.quant.need(), first.model.parameters.need()) == ("Q4_K_M", 8190735360)
    assert first.model.path.need() == BLOB
    assert isinstance(first.runtime.placement.gpu_layers, Unknown)
    assert "journalctl" in first.runtime.placement.gpu_layers.how_to_get


def test_only_loaded_models_are_shown_and_none_is_loaded():
    system = FakeSystem(http=replayed())
    read_url(system, URL, "")
    assert [question for question, _ in system.sent if question.startswith("POST")] == [f"POST {URL}/api/show"] * 2
    assert {body["model"] for question, body in system.sent if body} == {"qwen3:8b", "llama3.2:3b"}


def test_another_server_is_not_ollama():
    imitator = replayed() | {f"GET {URL}/": Answer(200, b"<html>KoboldAI Lite</html>")}
    assert read_url(FakeSystem(http=imitator), URL, "") is None


def test_a_remote_ollama_says_so_and_the_key_is_masked(wording):
    url, key = "https://box.example:443", "sk-very-secret-key"
    answers = replayed(url) | {f"POST {url}/api/show": Answer(401, f"bad key {key}".encode())}
    (first, _) = read_url(FakeSystem(http=answers), url, key)
    wording(first.runtime.placement.gpu_layers.why)
    assert key not in str(first)


def test_ollama_without_a_loaded_model_says_so():
    answers = replayed() | {f"GET {URL}/api/ps": Answer(200, b'{"models":[]}')}
    (subject,) = read_url(FakeSystem(http=answers), URL, "")
    assert subject.runtime.state.absence is Absence.NOT_FOUND
    assert "ollama run" in subject.model.name.how_to_get


@pytest.mark.parametrize(
    "body",
    [
        b'{"models": 3}',
        b'{"models": [1, null, "x"]}',
        b'{"models": [{"name": 5, "size": -1, "size_vram": "x", "context_length": 1e300, "details": []}]}',
        b'{"models": [{"name": "a", "size": 5, "size_vram": 50, "context_length": 99999999999999999999}]}',
    ],
)
def test_hostile_ollama_answers_give_no_vram_share(body: bytes):
    subjects = read_url(FakeSystem(http=replayed() | {f"GET {URL}/api/ps": Answer(200, body)}), URL, "")
    assert not any(isinstance(subject.runtime.memory.vram_share, Known) for subject in subjects)


@pytest.mark.parametrize("body", [b"[" * 5000, b'{"models": [{"context_length": 1e400}]}', b"\xff\xfe"])
def test_an_ollama_answer_that_is_not_json_is_a_look_error(body: bytes):
    with pytest.raises(LookError, match="not JSON"):
        read_url(FakeSystem(http=replayed() | {f"GET {URL}/api/ps": Answer(200, body)}), URL, "")


def test_the_journal_replaces_an_unreadable_environment():
    system = service()
    log = (LOG / "v0.5_reloads.log").read_text(encoding="utf-8")
    log = log.replace("C:\\\\Users\\\\somebody\\\\.ollama\\\\models\\\\blobs\\\\sha256-8eeb52dfb3bb", BLOB)
    system.commands = journal(log, "-n", "20000")
    matched, other = read(Process(system, 10, "ollama"), "")
    runtime = matched.runtime
    assert (matched.model.name.need(), other.model.name.need()) == ("qwen3:8b", "llama3.2:3b")
    assert runtime.process.pid.need() == 11
    assert runtime.process.environment.need()["OLLAMA_KV_CACHE_TYPE"] == "q8_0"
    assert runtime.process.log_path.need() == "journalctl -u ollama.service"
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need()) == (
        33,
        33,
    )  # the log's last load has this port
    assert runtime.process.resident_bytes.need() == 1024**2
    assert [load.context_length.need() for load in runtime.history.loads.need()] == [81920, 8192]
    assert runtime.placement.devices.need()[0].description == "NVIDIA GeForce RTX 3090"


def test_a_short_journal_is_asked_for_the_start_lines():
    system = service()
    start = 'time=x level=INFO source=types.go:32 msg="inference compute" library=CUDA name=CUDA0 total="8.0 GiB"'
    words = "server config|Listening on|inference compute|vram-based default context"
    system.commands = journal("[GIN] x", "-n", "20000") | journal(start, "-n", "40", "-g", words)
    subject, *_ = read(Process(system, 10, "ollama"), "")
    assert [device.name for device in subject.runtime.placement.devices.need()] == ["CUDA0"]


def test_without_a_journal_the_childs_command_line_is_used():
    system = service()
    system.commands = {
        "journalctl -u ollama.service --no-pager -o cat -n 20000": FinishedCommand(1, "", "No journal files")
    }
    subject, *_ = read(Process(system, 10, "ollama"), "")
    assert (subject.runtime.placement.gpu_layers.need(), subject.runtime.context.per_slot.need()) == (20, 32768)
    assert subject.runtime.process.log_path.why == "journalctl: No journal files"
    assert "systemd-journal" in subject.runtime.process.log_path.how_to_get


@pytest.mark.parametrize(
    ("cgroup", "options"),
    [
        ("0::/system.slice/ollama.service\n", ["-u", "ollama.service"]),
        ("0::/user.slice/user-1.slice/user@1.service/app.slice/ollama.service\n", ["--user-unit", "ollama.service"]),
        ("0::/user.slice/user-1.slice/user@1.service/app.slice/vte-spawn-1.scope\n", []),
        ("0::/user.slice/user-1.slice/session-3.scope\n", []),
        ("", []),
    ],
)
def test_the_journal_is_filtered_by_the_unit_of_the_cgroup(cgroup: str, options: list[str]):
    assert parse_unit(cgroup) == options


def test_the_log_of_an_ollama_container_comes_from_docker():
    name = "ab" * 32
    system = service(f"0::/system.slice/docker-{name}.scope\n")
    line = 'time=x level=INFO source=routes.go:2008 msg="Listening on [::]:11434 (version 0.12.1)"'
    system.commands = {f"docker logs --tail 20000 {name[:12]}": FinishedCommand(0, "", line)}
    del system.http[f"GET {URL}/api/version"]
    subject, *_ = read(Process(system, 10, "ollama"), "")
    assert (subject.runtime.version.need(), subject.runtime.process.container.need()) == ("0.12.1", "docker")


def test_a_silent_ollama_server_is_read_from_its_children():
    system = service()
    system.http = {}
    (subject,) = read(Process(system, 10, "ollama"), "")
    assert subject.model.path.need() == BLOB
    assert subject.runtime.placement.gpu_layers.need() == 20


def test_a_silent_ollama_server_without_children_says_why(wording):
    system = service()
    system.http, system.folders = {}, {"/proc": ["10"]}
    (subject,) = read(Process(system, 10, "ollama"), "")
    wording(subject.runtime.state.why)
