"""The whole command with a real llama-server and a real model."""

import os
import shutil

import msgspec
import pytest
from doubles import Quiet

from unslow.commands.tune import TuneRequest
from unslow.commands.tune.search import tune
from unslow.commands.verify.comparison import write_report
from unslow.show.tune import render_tune
from unslow.think.stats.tuning import TuneReport

SERVER = os.environ.get("UNSLOW_LLAMA_SERVER", "")
MODEL = os.environ.get("UNSLOW_LLAMA_MODEL", "")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not SERVER or not MODEL, reason="UNSLOW_LLAMA_SERVER and UNSLOW_LLAMA_MODEL name none"),
]


def test_tuning_finds_settings_that_start(tmp_path):
    progress = Quiet()
    words = {"target": MODEL, "server": SERVER, "seconds": 25.0, "yes": True}
    report = tune(TuneRequest.from_flags({**words, "context": 1024, "prompt": 64, "answer": 16}), progress)
    assert "No other server is touched" in progress.said[0]
    assert report.winner is not None
    assert report.trials[0].kind == "default"
    assert report.trials[0].rounds >= 1
    assert report.command.split()[0] == shutil.which(SERVER)
    assert f"-m {MODEL}" in report.command
    assert report.trials[report.winner].decode_tokens_per_s
    assert report.spent_s < 90
    path = tmp_path / "tune.json"
    write_report(report, str(path))
    assert msgspec.json.decode(path.read_bytes(), type=TuneReport) == report
    assert "95 % INTERVAL" in render_tune(report, "terminal", width=120, color=False)
