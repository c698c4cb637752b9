"""The fleet benchmark runs, and a small fleet meets every goal."""

import subprocess
import sys
from pathlib import Path

import pytest
from lab.fleet.processes import answers
from tests.real_prometheus import prometheus_program

ROOT = Path(__file__).parents[2]


@pytest.mark.real
def test_a_small_fleet_meets_every_goal(tmp_path):
    prometheus_program()
    command = [sys.executable, str(ROOT / "benchmarks" / "fleet.py"), "40", "120", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert "every goal is met" in done.stdout, done.stdout[-3000:] + done.stderr[-2000:]
    assert done.returncode == 0
    assert (tmp_path / "report.json").exists()


@pytest.mark.real
def test_a_terminated_fleet_stops_its_prometheus(tmp_path):
    prometheus_program()
    command = [sys.executable, "-m", "lab.fleet.generated", "3", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        said = [process.stdout.readline(), process.stdout.readline()]
        url = said[1].split()[3]
        assert answers(f"{url}/-/ready")
        process.terminate()
    assert process.returncode == 143
    assert not answers(f"{url}/-/ready")
