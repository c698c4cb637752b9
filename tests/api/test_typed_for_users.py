"""A user's program, checked by strict mypy."""

import os
import subprocess
import sys

import pytest

GOOD = """
import unslow

report: unslow.Report = unslow.diagnose("seen.json", passive=True, goal=20)
causes: list[str] = [finding.cause for subject in report.subjects for finding in subject.findings]
fits: bool | None = unslow.fit("qwen3-8b", device=["RTX 4090", "RTX 3090"], context=8192).fits
decode = unslow.predict("qwen3-8b", device="RTX 4090").decode
speed: float = decode.tokens_per_s.mid if decode else 0.0
best: int | None = unslow.plan("qwen3-8b", goal="context", least_speed=10).recommended
text: str = unslow.to_json(report) + unslow.to_text(unslow.check("70B Q4 fits in 24 GB"))
try:
    unslow.explain("cpu_contended").title.upper()
except unslow.UserError as error:
    print(error.message, error.hint)
"""
BAD = """
import unslow

unslow.fit("qwen3-8b", context=3.5)
unslow.plan("qwen3-8b", goal="speedy")
unslow.diagnose().verdict
unslow.diagnoze()
"""


@pytest.mark.real
def test_types_reach_the_users_program(tmp_path):
    (tmp_path / "good.py").write_text(GOOD, "utf-8")
    (tmp_path / "bad.py").write_text(BAD, "utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "good.py", "bad.py"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert not [line for line in errors if not line.startswith("bad.py:")], done.stdout
    assert sorted({int(line.split(":")[1]) for line in errors}) == [4, 5, 6, 7], done.stdout
