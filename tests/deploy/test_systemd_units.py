"""The units under systemd's own checks, and started by a real systemd in its own namespaces."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import real_systemd
from real_prometheus import prometheus_program
from test_deploy_commands import DEPLOY

UNITS = DEPLOY / "systemd"
NAMES = sorted(path.name for path in UNITS.glob("unslow*.*") if path.is_file())
ANALYZE = shutil.which("systemd-analyze")
EXPOSED = 2.5
"""Of ten, by `systemd-analyze security`: services without any of it have 9.6."""
ROOT = DEPLOY.parent


def placed(folder: Path, program: str, environment: str = "") -> Path:
    """The units with a program that is there, as both checks want it."""
    for name in NAMES:
        text = (UNITS / name).read_text().replace("/usr/local/bin/unslow", program)
        (folder / name).write_text(text.replace("[Service]\n", f"[Service]\n{environment}", 1))
    return folder


@pytest.mark.skipif(not ANALYZE, reason="there is no systemd-analyze")
def test_systemd_analyze_verify_has_no_complaints(tmp_path):
    placed(tmp_path, f"{sys.executable} -m unslow")
    words = [ANALYZE, "verify", *(str(tmp_path / name) for name in NAMES)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(NAMES) == 3


@pytest.mark.skipif(not ANALYZE, reason="there is no systemd-analyze")
@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".service")])
def test_units_have_a_low_exposure_level(name):
    words = [ANALYZE, "security", "--offline=yes", str(UNITS / name)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    (level,) = re.findall(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(level) <= EXPOSED


def test_the_exporter_unit_does_not_hide_what_it_reads():
    text = (UNITS / "unslow-exporter.service").read_text()
    for hides in (
        "ProtectProc=invisible",
        "ProcSubset=pid",
        "PrivateUsers=yes",
        "PrivateDevices=yes",
        "PrivateNetwork",
    ):
        assert f"\n{hides}" not in text


@pytest.fixture(scope="module")
def system(tmp_path_factory) -> Iterator[real_systemd.Booted]:
    """With a Prometheus, and a Python that anybody may run: the one of a user's home is closed to other users."""
    python = Path("/usr/bin/python3")
    site = next(iter(p for p in sys.path if p.endswith("site-packages")))
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=False).stdout.split()[-1:]
    if not version or version[0].rsplit(".", 1)[0] != ".".join(map(str, sys.version_info[:2])):
        pytest.skip("the system has no Python of the same version")
    folder = tmp_path_factory.mktemp("units")
    placed(folder, f"{python} -m unslow", f"Environment=PYTHONPATH={ROOT / 'src'}:{site} PYTHONDONTWRITEBYTECODE=1\n")
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    words = f"{prometheus_program()} --config.file={folder}/prometheus.yml --storage.tsdb.path=/run/prometheus"
    (folder / "prometheus.service").write_text(f"[Service]\nExecStart={words} --web.listen-address=127.0.0.1:9090\n")
    with real_systemd.booted(folder) as booted:
        booted.run("ip", "link", "set", "lo", "up")
        booted.run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/lib")  # what is written there ends with it
        yield booted


def waited(system: real_systemd.Booted, url: str, wanted: str) -> str:
    for _ in range(200):
        if wanted in (text := system.done("curl", "-s", url).stdout):
            return text
        time.sleep(0.1)
    return text


@pytest.mark.real
@pytest.mark.skipif(bool(real_systemd.missing()), reason=real_systemd.missing())
def test_the_exporter_works_under_the_units_restrictions(system):
    system.run("systemctl", "start", "unslow-exporter")
    text = waited(system, "http://127.0.0.1:9877/metrics", "\nunslow_look_success 1\n")
    assert "\nunslow_look_success 1\n" in text
    assert system.show("unslow-exporter", "DynamicUser") == "yes"
    assert system.show("unslow-exporter", "ActiveState") == "active"
    system.run("systemctl", "stop", "unslow-exporter")
    assert system.show("unslow-exporter", "Result") == "success", "a polite kill ends it"


@pytest.mark.real
@pytest.mark.skipif(bool(real_systemd.missing()), reason=real_systemd.missing())
def test_the_fleet_unit_writes_its_report(system):
    system.run("systemctl", "start", "prometheus")
    assert waited(system, "http://127.0.0.1:9090/-/ready", "Ready")
    done = system.done("systemctl", "start", "unslow-fleet")
    assert done.returncode == 0, system.done("systemctl", "status", "unslow-fleet").stdout
    assert system.run("cat", "/var/lib/unslow-fleet/report.md").startswith("#")
