import os
from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.commands.apply.ways import StartWords, way_of
from unslow.facts.errors import UserError
from unslow.look.system import FinishedCommand

OLD = ("/opt/llama-server", "-m", "x.gguf", "-c", "32768")
NEW = ("/opt/llama-server", "-m", "x.gguf", "-c", "8192")
TOLD = StartWords(7, OLD, NEW, {})
SHOW = "--property=FragmentPath --property=DropInPaths"


def system_with(parent: str, cgroup: str, **more) -> FakeSystem:
    files = {
        "/proc/7/comm": "llama-server",
        "/proc/7/status": f"PPid:\t6\nUid:\t{os.geteuid()}\n",
        "/proc/7/cgroup": cgroup,
        "/proc/6/comm": parent.split(maxsplit=1)[0],
        "/proc/6/cmdline": parent.replace(" ", "\0") + "\0",
        "/proc/6/status": "PPid:\t1\n",
    }
    return FakeSystem(files={**files, **more.pop("files", {})}, links={"/proc/6/cwd": "/"}, **more)


def of_unit(folder: Path, start: str, user: str = "") -> FakeSystem:
    unit = folder / "llama.service"
    unit.write_text(f"[Service]\nExecStart={start}\n")
    unit.chmod(0o600)
    cgroup = f"0::{user}/system.slice/llama.service"
    scope = "systemctl --user" if user else "systemctl"
    said = FinishedCommand(0, f"FragmentPath={unit}\nDropInPaths=\n", "")
    commands = {f"{scope} show llama.service {SHOW}": said}
    return system_with("systemd", cgroup, files={str(unit): unit.read_text()}, commands=commands)


def test_system_unit_gets_a_drop_in(tmp_path):
    way = way_of(of_unit(tmp_path, " ".join(OLD)), TOLD, None)
    assert way.how == "systemd"
    (edit,) = way.edits
    assert edit.path == "/etc/systemd/system/llama.service.d/90-unslow.conf"
    assert edit.before is None
    assert edit.mode == 0o600
    assert edit.after.decode().endswith("ExecStart=\nExecStart=/opt/llama-server -m x.gguf -c 8192\n")
    assert way.then == ("systemctl daemon-reload", "systemctl restart llama.service")


def test_user_unit_gets_a_drop_in_under_xdg_config_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    way = way_of(of_unit(tmp_path, " ".join(OLD), "/user.slice/user@1000.service"), TOLD, None)
    assert way.edits[0].path == str(tmp_path / "config/systemd/user/llama.service.d/90-unslow.conf")
    assert way.then[1] == "systemctl --user restart llama.service"


def test_unit_of_another_user_is_not_changed(tmp_path):
    system = of_unit(tmp_path, " ".join(OLD), "/user.slice/user@1000.service")
    system.files["/proc/7/status"] = f"PPid:\t6\nUid:\t{os.geteuid() + 1}\n"
    assert "another user" in way_of(system, TOLD, None).because


def test_unit_that_starts_a_script_edits_the_script(tmp_path):
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/sh\nexec {' '.join(OLD)}\n")
    system = of_unit(tmp_path, f"/bin/sh {script}")
    system.files[str(script)] = script.read_text()
    way = way_of(system, TOLD, None)
    assert (way.how, way.edits[0].path) == ("script", str(script))
    assert way.then == ("systemctl restart llama.service",)
    script.write_text("#!/bin/sh\nexec other\n")
    assert way_of(system, TOLD, None).because.startswith(str(script))


def test_unit_with_another_command_is_left_to_the_user(tmp_path, wording):
    way = way_of(of_unit(tmp_path, "/opt/llama-server -m other.gguf"), TOLD, None)
    assert (way.how, way.edits) == ("by_hand", ())
    wording(way.because)


def test_script_of_the_parent_shell_is_edited(tmp_path, wording):
    script = tmp_path / "start.sh"
    script.write_text(" ".join(OLD))
    way = way_of(system_with(f"bash {script}", "0::/session.scope"), TOLD, None)
    assert (way.how, way.edits[0].after) == ("script", " ".join(NEW).encode())
    wording(way.then[0])


def test_missing_script_is_left_to_the_user(tmp_path):
    for script, why in ((f"{tmp_path}/gone.sh", "no such file"), ("/dev/fd/3", "not a file of its own")):
        way = way_of(system_with(f"bash {script}", "0::/session.scope"), TOLD, None)
        assert (way.how, way.edits) == ("by_hand", ())
        assert why in way.because


def test_compose_file_of_a_container_is_edited(tmp_path):
    compose = tmp_path / "compose.yml"
    compose.write_text('services:\n  llama:\n    command: ["-m", "x.gguf", "-c", "32768"]\n')
    labels = f'{{"com.docker.compose.project.config_files":"{compose}","com.docker.compose.service":"llama"}}'
    name = "ab" * 32
    commands = {f"docker inspect --format {{{{json .Config.Labels}}}} {name}": FinishedCommand(0, labels, "")}
    system = system_with("containerd-shim", f"0::/system.slice/docker-{name}.scope", commands=commands)
    way = way_of(system, TOLD, None)
    assert way.how == "compose"
    assert b'["-m", "x.gguf", "-c", "8192"]' in way.edits[0].after
    assert way.then == (f"docker compose -f {compose} up -d llama",)
    assert "variables" in way_of(system, TOLD._replace(environment={"A": "1"}), None).because
    named = way_of(system_with("sh", "0::/x.scope"), TOLD, str(compose))
    assert named.edits == way.edits


def test_compose_file_without_the_command_is_not_changed(tmp_path):
    compose = tmp_path / "compose.yaml"
    compose.write_text("services:\n  a:\n    command: [x]\n  b:\n    image: y\n")
    assert "0 services" in way_of(system_with("sh", "0::/x.scope"), TOLD, str(compose)).because


def test_unknown_launcher_suggests_the_file_option():
    assert "--file" in way_of(system_with("init", "0::/x.scope"), TOLD, None).because


def test_file_option_refuses_units_missing_files_and_non_utf8(tmp_path):
    system = system_with("sh", "0::/x.scope")
    with pytest.raises(UserError, match="never edits"):
        way_of(system, TOLD, "/etc/systemd/system/llama.service")
    with pytest.raises(UserError, match="no such file"):
        way_of(system, TOLD, str(tmp_path / "none.sh"))
    (tmp_path / "binary.sh").write_bytes(b"\xff\xfe")
    assert "UTF-8" in way_of(system, TOLD, str(tmp_path / "binary.sh")).because
