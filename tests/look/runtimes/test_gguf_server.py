import json
from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence, Origin, Unknown
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.processes import read_process
from unslow.look.runtimes._gguf_process import HEAD_BYTES, read_log, url_of
from unslow.look.runtimes._gguf_server import read_server
from unslow.look.system import Answer, LookError

FOLDER = Path(__file__).parents[2] / "machines" / "h200_llama_server_gpu_layers_set_too_low"
URL = "http://127.0.0.1:8080"
COMMAND = ["llama-server", "-m", "models/llama8b.gguf", "-ngl", "20", "-c", "8192"]


def machine(command: list[str] = COMMAND, http: bool = True, **files) -> FakeSystem:
    """The recorded server as a running process."""
    names = {"/props": "props.json", "/v1/models": "models.json", "/slots": "slots.json", "/metrics": "metrics.txt"}
    answers = {f"GET {URL}{path}": Answer(200, (FOLDER / name).read_bytes()) for path, name in names.items()}
    answers[f"GET {URL}/health"] = Answer(200, b'{"status":"ok"}')
    processes = {
        "/proc/7/comm": "llama-server",
        "/proc/7/cmdline": "\0".join(command) + "\0",
        "/proc/7/environ": "",
        "/proc/7/status": (FOLDER / "proc_status.txt").read_text(encoding="utf-8"),
        "/logs/out": (FOLDER / "server.log").read_bytes(),
    }
    links = {"/proc/7/cwd": "/srv", "/proc/7/fd/1": "/logs/out", "/proc/7/fd/2": "/logs/out"}
    return FakeSystem(files=processes | files, http=answers if http else {}, links=links, folders={"/proc": ["7"]})


def subject_of(system: FakeSystem, key: str = ""):
    return read_server(system, read_process(system, 7), key)


def test_process_http_and_log_are_merged_into_one_subject():
    subject = subject_of(machine())
    runtime, model = subject.runtime, subject.model
    assert (
        runtime.placement.gpu_layers_set.need(),
        runtime.placement.gpu_layers.need(),
        runtime.placement.layers.need(),
    ) == (20, 20, 33)
    assert runtime.placement.gpu_layers_set.source == "command line: -ngl 20"
    assert runtime.placement.gpu_layers.source == "out:122"
    assert (runtime.process.url.need(), runtime.process.pid.need(), runtime.process.log_path.need()) == (
        URL,
        7,
        "/logs/out",
    )
    assert (runtime.context.length.need(), runtime.context.requested.need(), runtime.scheduling.slots.need()) == (
        8192,
        8192,
        4,
    )
    assert runtime.state.source == f"{URL}/props"
    assert runtime.placement.tensor_overrides.need() == []
    assert runtime.process.resident_bytes.need() == 3248856 * 1024
    assert model.weights_bytes.need() == 4912898048
    assert model.weights_bytes.origin is Origin.REPORTED
    assert (model.path.need(), model.name.need(), model.layers.need()) == ("/srv/models/llama8b.gguf", "llama8b", 32)


def test_without_http_log_and_command_line_remain():
    runtime = subject_of(machine(http=False)).runtime
    assert runtime.placement.gpu_layers.need() == 20
    assert (runtime.state.need(), runtime.state.source) == ("loaded", "out:188")
    assert isinstance(runtime.scheduling.busy_slots, Unknown)


@pytest.mark.parametrize(("more", "fits"), [({"is_sleeping": False}, True), ({}, None)])
def test_a_build_without_a_number_is_dated_by_the_fields_of_props(more, fits):
    system = machine(**{"/logs/out": LookError("permission denied")})
    props = json.loads((FOLDER / "props.json").read_bytes())
    props = {name: value for name, value in props.items() if name != "is_sleeping"} | {"build_info": "b0-unknown"}
    system.http[f"GET {URL}/props"] = Answer(200, json.dumps(props | more).encode())
    assert subject_of(system).runtime.placement.fit.value_or(None) is fits


def test_without_a_log_settings_remain_with_a_hint_to_log_file():
    denied = LookError("permission denied")
    runtime = subject_of(machine(**{"/logs/out": denied})).runtime
    assert runtime.placement.gpu_layers_set.need() == 20
    assert isinstance(runtime.placement.gpu_layers, Unknown)
    assert "--log-file" in runtime.process.log_path.how_to_get
    assert (runtime.cache.type_k.need(), runtime.cache.type_k.origin) == ("f16", Origin.ESTIMATED)


def test_the_file_of_log_file_wins_over_standard_output():
    log = "load_tensors: offloaded 5/33 layers to GPU\n"
    system = machine([*COMMAND, "--log-file", "own.log"], **{"/proc/7/root/srv/own.log": log})
    runtime = subject_of(system).runtime
    assert runtime.placement.gpu_layers.need() == 5
    assert runtime.process.log_path.need() == "/srv/own.log"


def test_another_server_on_the_port_is_not_this_one():
    runtime = subject_of(machine(["llama-server", "-m", "/m/other.gguf"])).runtime
    assert runtime.process.url.absence is Absence.NOT_FOUND
    assert isinstance(runtime.scheduling.busy_slots, Unknown)


def test_tensor_overrides_leave_no_token_table_estimate():
    healthy = (FOLDER.parent / "h200_llama_server_healthy_full_gpu" / "server.log").read_bytes()
    assert subject_of(machine(**{"/logs/out": healthy})).model.token_table_bytes.need() > 0
    subject = subject_of(machine([*COMMAND, "-cmoe"], **{"/logs/out": healthy}))
    assert subject.model.token_table_bytes.absence is Absence.NOT_LOOKED


def test_a_process_with_everything_denied_still_has_its_pid():
    denied = LookError("permission denied")
    names = ("cmdline", "environ", "status")
    subject = subject_of(machine(http=False, **{f"/proc/7/{name}": denied for name in names}, **{"/logs/out": denied}))
    assert subject.runtime.process.pid.need() == 7
    assert isinstance(subject.runtime.placement.gpu_layers_set, Unknown)


def test_a_server_is_read_by_its_url_alone():
    subject = read_server(machine(), f"{URL}/")
    assert subject.runtime.process.url.need() == URL
    assert subject.model.weights_bytes.need() == 4912898048
    assert subject.runtime.process.command.absence is Absence.NOT_LOOKED


@pytest.mark.parametrize("url", ["", "http://[::1", "nonsense"])
def test_an_invalid_url_gives_unknown_facts(url):
    assert isinstance(read_server(FakeSystem(), url).runtime.version, Unknown)


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("", "http://127.0.0.1:8080"),
        ("--host 0.0.0.0 --port 9", "http://127.0.0.1:9"),
        ("--host ::1", "http://[::1]:8080"),
        ("--api-prefix /llm --ssl-cert-file c", "https://127.0.0.1:8080/llm"),
        ("--host 10.0.0.5", "http://10.0.0.5:8080"),
    ],
)
def test_the_listening_url_comes_from_host_and_port_flags(line, url):
    assert url_of(parse_settings(["llama-server", *line.split()], {})).need() == url


def test_a_unix_socket_has_no_url():
    assert isinstance(url_of(parse_settings(["llama-server", "--host", "/run/l.sock"], {})), Unknown)


def test_a_long_log_is_read_at_both_ends():
    start = b"load_tensors: offloaded 20/33 layers to GPU\n"
    end = b"prompt eval time = 1.0 ms / 2 tokens\neval time = 100.0 ms / 11 tokens\n"
    log = read_log(FakeSystem(files={"/l": start + (b"x" * 4095 + b"\n") * (HEAD_BYTES // 4096) + end}), "/l")
    assert log.runtime.placement.gpu_layers.source == "l:1"
    assert log.run.completions.source == "l:-1"


def test_a_subject_survives_the_snapshot():
    from unslow.facts.snapshot import Snapshot, dump_snapshot, parse_snapshot

    snapshot = Snapshot(unslow_version="0", subjects=(subject_of(machine()),))
    assert parse_snapshot(dump_snapshot(snapshot)) == snapshot
    assert json.loads(dump_snapshot(snapshot))["subjects"]


# what llama-server prints by default while it loads 803 MB from a disk that gives 25 MB/s
SLOW_LOAD = """\
0.00.003.204 I srv  llama_server: initializing ...
0.00.004.462 I srv    load_model: loading model '/srv/models/llama8b.gguf'
0.32.017.748 I cmn          init: llama threadpool init, n_threads = 2
0.33.061.221 I srv  llama_server: model loaded
0.33.061.595 I srv  llama_server: listening on http://127.0.0.1:8080
"""


def test_load_time_comes_from_log_timestamps():
    load_s = subject_of(machine(**{"/logs/out": SLOW_LOAD})).run.load_s
    assert load_s.need() == pytest.approx(33.057, abs=0.001)
    assert load_s.source == "out:4"
    assert isinstance(subject_of(machine(**{"/logs/out": LookError("permission denied")})).run.load_s, Unknown)
