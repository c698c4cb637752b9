"""Ollama as an app on a Mac or under Windows: no process can be listed, and its log lies where it always does."""

import json

import pytest
from doubles import FakeSystem
from test_ollama_read import URL, replayed
from written import one_change

from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import Absence, Known, Unknown, reported
from unslow.look.runtimes import ollama
from unslow.look.runtimes.ollama.places import home_of
from unslow.look.runtimes.ollama.server import read_url
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
def test_the_log_that_the_app_keeps_tells_what_its_api_does_not(system: str):
    (subject,) = read_url(app(system), URL, "")
    runtime = subject.runtime
    assert (runtime.gpu_layers.need(), runtime.layers.need()) == (20, 33)
    assert (runtime.keep_alive_s.need(), runtime.slots.need()) == (0, 2)
    assert [device.description for device in runtime.devices.need()] == ["Apple M2"]
    assert [past.seconds.need() for past in runtime.loads.need()] == [4.2]
    assert runtime.log_path.need() == PLACES[system]
    assert (runtime.version.need(), runtime.url.need()) == ("0.33.0", URL)


def test_the_last_load_of_the_model_counts_and_not_that_of_another():
    loads = (load(f"/x/{DIGEST}", 33, 1), load(f"/x/{DIGEST}", 12, 2), load(f"/x/{OTHER}", 30, 3))
    (subject,) = read_url(app("mac", *loads), URL, "")
    assert subject.runtime.gpu_layers.need() == 12
    assert len(subject.runtime.loads.need()) == 3


def test_without_a_log_it_is_said_how_to_get_it():
    system = app("mac")
    system.files.clear()
    (subject,) = read_url(system, URL, "")
    assert isinstance(subject.runtime.gpu_layers, Unknown)
    assert "~/.ollama/logs/server.log" in subject.runtime.gpu_layers.how_to_get


def test_the_log_of_this_machine_says_nothing_of_another():
    url = "http://box.example:11434"
    system = app("mac")
    system.http = {key.replace(URL, url): answer for key, answer in system.http.items()}
    (subject,) = read_url(system, url, "")
    assert isinstance(subject.runtime.gpu_layers, Unknown)
    assert subject.runtime.gpu_layers.absence is Absence.NOT_SUPPORTED
    assert not isinstance(subject.runtime.loads, Known)


@pytest.mark.parametrize(
    ("system", "home"),
    [
        ("Microsoft Windows 11 Pro", "windows"), ("Windows x86_64", "windows"), ("macOS 15.6", "mac"),
        ("Darwin arm64", "mac"), ("Ubuntu 24.04.3 LTS", "service"), ("Linux x86_64", "service"), ("", "service"),
    ],
)  # fmt: skip
def test_the_name_of_a_system_tells_where_a_variable_is_set(system: str, home: str):
    assert home_of(Runtime(system=reported(system, "x"))) == home


def test_windows_has_no_override_of_an_architecture_and_no_script_to_install():
    refused = reported("no rocblas support for gfx target: gfx1032", "log")
    windows = Runtime(system=reported("Microsoft Windows 11 Pro", "x"), gpu_refused=refused)
    assert one_change(ollama, Change(Knob.GPU_BACKEND, None), windows)[0] == 'setx OLLAMA_VULKAN "1"'
    linux = Runtime(system=reported("Ubuntu 24.04", "x"), gpu_refused=refused)
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in one_change(ollama, Change(Knob.GPU_BACKEND, None), linux)[0]
    lacking = reported("no compatible rocm library found", "log")
    again = one_change(ollama, Change(Knob.GPU_BACKEND, None), Runtime(system=windows.system, gpu_refused=lacking))
    assert not any("install.sh" in line for line in again)
