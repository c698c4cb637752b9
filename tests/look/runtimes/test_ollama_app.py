"""Ollama as an app on macOS or Windows: no process list, and its log at the usual location."""

import json

import pytest
from doubles import FakeSystem
from test_ollama_read import URL, replayed
from written import one_change

from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import Absence, Known, Unknown, reported_fact
from unslow.look.runtimes import ollama
from unslow.look.runtimes.ollama import read_url
from unslow.look.runtimes.ollama.places import home_of
from unslow.look.system import Answer

DIGEST = "sha256-" + "ab" * 32
OTHER = "sha256-" + "cd" * 32
HOMES = {"mac": "/Users/user", "windows": "C:\\Users\\user"}
LOCAL = "C:\\Users\\user\\AppData\\Local"
PLACES = {"mac": "/Users/user/.ollama/logs/server.log", "windows": f"{LOCAL}\\Ollama\\server.log"}
HEAD = "time=2026-01-01T10:00:00.000Z level=INFO source="


def load(blob: str, layers: int, port: int) -> str:
    shown = blob.replace("\\", "\\\\")
    return (
        f'{HEAD}llama_server.go:433 msg="starting llama-server" cmd="llama-server --model {shown} --port {port} '
        f'-c 8192 -np 2"\nload_tensors: offloaded {layers}/33 layers to GPU\n'
        f'{HEAD}llama_server.go:1362 msg="llama-server started in 4.20 seconds"\n'
    )


def app(system: str, *loads: str) -> FakeSystem:
    separator = "/" if system == "mac" else "\\"
    blob = f"{HOMES[system]}{separator}.ollama{separator}models{separator}blobs{separator}{DIGEST}"
    start = (
        f'{HEAD}routes.go:1951 msg="server config" env="map[OLLAMA_KEEP_ALIVE:0s OLLAMA_NUM_PARALLEL:2]"\n'
        f'{HEAD}types.go:32 msg="inference compute" id=0 library=Metal name=MTL0 description="Apple M2" '
        'type=iGPU total="5.3 GiB" available="5.3 GiB"\n'
    )
    text = start + "".join(loads or (load(blob, 20, 50001),))
    loaded = {"name": "llama3.1:8b", "size": 100, "size_vram": 60, "context_length": 4096}
    http = {
        f"GET {URL}/api/ps": Answer(200, json.dumps({"models": [loaded]}).encode()),
        f"POST {URL}/api/show": Answer(200, json.dumps({"modelfile": f"FROM {blob}\n"}).encode()),
    }
    around = {"home": HOMES[system], "variables": {"LOCALAPPDATA": LOCAL} if system == "windows" else {}}
    return FakeSystem(
        files={PLACES[system]: text}, http=replayed() | http, asks={"surroundings of model stores": around}
    )


@pytest.mark.parametrize("system", ["mac", "windows"])
def test_the_log_of_the_ollama_app_adds_what_the_api_lacks(system: str):
    (subject,) = read_url(app(system), URL, "")
    runtime = subject.runtime
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need()) == (20, 33)
    assert (runtime.scheduling.keep_alive_s.need(), runtime.scheduling.slots.need()) == (0, 2)
    assert [device.description for device in runtime.placement.devices.need()] == ["Apple M2"]
    assert [past.seconds.need() for past in runtime.history.loads.need()] == [4.2]
    assert runtime.process.log_path.need() == PLACES[system]
    assert (runtime.version.need(), runtime.process.url.need()) == ("0.33.0", URL)


def test_the_last_load_of_the_same_model_counts():
    loads = (load(f"/x/{DIGEST}", 33, 1), load(f"/x/{DIGEST}", 12, 2), load(f"/x/{OTHER}", 30, 3))
    (subject,) = read_url(app("mac", *loads), URL, "")
    assert subject.runtime.placement.gpu_layers.need() == 12
    assert len(subject.runtime.history.loads.need()) == 3


def test_without_a_log_gpu_layers_say_where_it_is():
    system = app("mac")
    system.files.clear()
    (subject,) = read_url(system, URL, "")
    assert isinstance(subject.runtime.placement.gpu_layers, Unknown)
    assert "~/.ollama/logs/server.log" in subject.runtime.placement.gpu_layers.how_to_get


def test_the_local_log_is_not_used_for_a_remote_server():
    url = "http://box.example:11434"
    system = app("mac")
    system.http = {key.replace(URL, url): answer for key, answer in system.http.items()}
    (subject,) = read_url(system, url, "")
    assert isinstance(subject.runtime.placement.gpu_layers, Unknown)
    assert subject.runtime.placement.gpu_layers.absence is Absence.NOT_SUPPORTED
    assert not isinstance(subject.runtime.history.loads, Known)


@pytest.mark.parametrize(
    ("system", "home"),
    [
        ("Microsoft Windows 11 Pro", "windows"), ("Windows x86_64", "windows"), ("macOS 15.6", "mac"),
        ("Darwin arm64", "mac"), ("Ubuntu 24.04.3 LTS", "service"), ("Linux x86_64", "service"), ("", "service"),
    ],
)  # fmt: skip
def test_the_operating_system_decides_where_a_variable_is_set(system: str, home: str):
    assert home_of(Runtime().with_facts(system=reported_fact(system, "x"))) == home


def test_windows_gets_neither_hsa_override_nor_install_script():
    refused = reported_fact("no rocblas support for gfx target: gfx1032", "log")
    windows = Runtime().with_facts(system=reported_fact("Microsoft Windows 11 Pro", "x"), gpu_refused=refused)
    assert one_change(ollama, Change(Knob.GPU_BACKEND, None), windows)[0] == 'setx OLLAMA_VULKAN "1"'
    linux = Runtime().with_facts(system=reported_fact("Ubuntu 24.04", "x"), gpu_refused=refused)
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in one_change(ollama, Change(Knob.GPU_BACKEND, None), linux)[0]
    lacking = reported_fact("no compatible rocm library found", "log")
    again = one_change(
        ollama, Change(Knob.GPU_BACKEND, None), Runtime().with_facts(system=windows.process.system, gpu_refused=lacking)
    )
    assert not any("install.sh" in line for line in again)
