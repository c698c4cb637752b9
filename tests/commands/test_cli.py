"""The command line: what it prints, and how it exits."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from unslow import __version__
from unslow.__main__ import main
from unslow.commands._dispatch import commands, first_line, parse_words
from unslow.commands._formats import FORMATS
from unslow.commands._output import ProgressBar
from unslow.fleet.settings import Address, ExporterSettings

MACHINES = Path(__file__).parents[1] / "machines"
HEALTHY = str(MACHINES / "h200_llama_server_healthy_full_gpu")
SLOW = str(MACHINES / "h200_llama_server_gpu_layers_set_too_low")


def run(capsys, *words: str) -> tuple[int, str, str]:
    status = main(words)
    out = capsys.readouterr()
    return status, out.out, out.err


def test_version_is_printed(capsys):
    assert run(capsys, "--version") == (0, f"unslow {__version__}\n", "")


def test_help_lists_every_command(capsys):
    status, text, _ = run(capsys, "--help")
    assert status == 0
    assert sorted(re.findall(r"^  (\w+) +[A-Z]", text, re.MULTILINE)) == sorted(commands())
    assert "exit status" in text
    assert "\nother:" not in text


@pytest.mark.parametrize("name", list(commands()))
def test_every_command_has_examples_in_its_help(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out
    assert "examples:" in text
    assert "exit status of every command: 0 fine" in text


def test_exit_status_follows_the_verdict(capsys):
    assert run(capsys, "diagnose", HEALTHY)[0] == 0
    assert run(capsys, "diagnose", SLOW)[0] == 1
    assert run(capsys, SLOW)[0] == 1


def test_json_report_of_a_recorded_machine(capsys):
    status, out, _ = run(capsys, "diagnose", SLOW, "--json")
    report = json.loads(out)
    assert status == 1
    assert report["schema"] == "unslow.report/1"
    finding = report["subjects"][0]["findings"][0]
    assert finding["cause"] == "gpu_layers_set_too_low"
    assert "-ngl" not in finding["fixes"][0]["commands"][-1]


def test_saved_snapshot_gives_the_same_report_as_its_folder(capsys, tmp_path):
    saved = str(tmp_path / "seen.json")
    _, first, _ = run(capsys, SLOW, "--json", "--save", saved)
    _, second, _ = run(capsys, saved, "--json")
    first, second = json.loads(first), json.loads(second)
    assert first["subjects"][0]["findings"][0]["cause"] == second["subjects"][0]["findings"][0]["cause"]
    assert first["subjects"][0]["expected"] == second["subjects"][0]["expected"]


def test_goal_is_answered_in_the_report(capsys, wording):
    wording(run(capsys, HEALTHY, "--goal", "500")[1].replace("\n  ", " "), about="500 tok/s")


def test_explain_lists_causes_and_shows_one(capsys):
    status, out, _ = run(capsys, "explain")
    assert status == 0
    assert "weights_spill_to_ram" in out
    assert "normal_for_this_hardware" in out
    assert "How to fix" in run(capsys, "explain", "cpu-contended")[1]
    assert json.loads(run(capsys, "explain", "cpu_contended", "--json")[1])[0]["id"] == "cpu_contended"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["diagnose", "/no/such/file"], "no such file", "TARGET"),
        (["diagnos"], "is not a command", "diagnose"),
        (["explain", "weights_spill"], "unknown cause", "weights_spill_to_ram"),
        (["diagnose", "--format", "xml", HEALTHY], "unknown format", "terminal"),
        (["diagnose", "ftp://host"], "not a URL", "http://"),
        (["diagnose", "http://a b"], "not a URL", "llama-server"),
        (["diagnose", ""], "is empty", "TARGET"),
        (["diagnose", "/dev/zero"], "not a file", "TARGET"),
        (["diagnose", "http://127.0.0.1:1"], "nothing listens", "llama-server"),
        (["diagnose", "999999999"], "does not exist", "unslow"),
        (["diagnose", HEALTHY, "--goal", "-3"], "--goal must be between", "the speed you want"),
        (["diagnose", HEALTHY, "--save", "/no/such/folder/x"], "/no/such/folder/x", "writable"),
        (["collect", "-o", "/no/such/folder/x", HEALTHY], "/no/such/folder/x", "writable"),
        (["collect", "-o", "x", "http://127.0.0.1"], "collect reads", "diagnose"),
    ],
)
def test_invalid_input_is_one_line_with_a_hint(words, message, hint, capsys):
    status, out, err = run(capsys, *words, *([] if words[0] != "diagnose" else ["-q"]))
    assert status == 2
    assert out == ""
    assert err.startswith("unslow: ")
    assert message in err
    assert hint in err
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"schema": "unslow.snapshot/1", "machine": 3}', "\0" * 1000])
def test_invalid_snapshot_exits_2(text, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_text(text)
    status, _, err = run(capsys, "diagnose", str(path))
    assert status == 2
    assert "hint:" in err


def test_closed_pipe_is_not_an_error():
    command = f"{sys.executable} -m unslow diagnose {SLOW} --json | head -c 10"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("ending", "message"), [("> /dev/full", "standard output"), (">&-", "no standard output"), ("2>&- >/dev/null", "")]
)
def test_unwritable_output_is_reported_without_a_traceback(ending, message):
    command = f"{sys.executable} -m unslow diagnose {SLOW} {ending}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert done.returncode == (2 if message else 1)


def test_output_works_in_an_ascii_terminal(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "unslow", "diagnose", SLOW], capture_output=True, check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"SLOW" in done.stdout


@pytest.mark.parametrize("command", ["diagnose", "triage"])
def test_help_names_every_format(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    told = text.rpartition("--format FORMAT")[2].splitlines()[0]
    assert all(name in told for name in FORMATS)


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("60", 60), ("", 100), ("0", 100), ("wide", 100)])
def test_piped_output_uses_columns_as_width(columns, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    out = run(capsys, "diagnose", SLOW)[1]
    longest = max(len(line) for line in out.splitlines() if "--" not in line)  # commands are not broken
    assert longest <= width
    assert longest > width - 15


def test_address_without_a_scheme_is_a_url(capsys, wording):
    status, _, err = run(capsys, "127.0.0.1:9", "--passive", "-q")
    assert status == 2
    wording(err, tells="http://127.0.0.1:9")


def test_password_in_a_url_is_not_shown(capsys):
    status, _, err = run(capsys, "http://bob:canary-password@127.0.0.1:9", "--passive")
    assert status == 2
    assert "are ignored" in err
    assert "canary-password" not in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["exporter", "--prt=9977"], "unknown option --prt; did you mean --port?"),
        (["fit", "qwen3-8b", "--jsn"], "unknown option --jsn; did you mean --json?"),
        (["fit", "qwen3-8b", "--contxt", "4096"], "unknown option --contxt; did you mean --context?"),
        (["fit", "qwen3-8b", "--devic", "24GB"], "unknown option --devic; did you mean --device?"),
        (["fit", "qwen3-8b", "another"], "'another' is an extra argument"),
        (["fit", "qwen3-8b", "--context"], "argument -c/--context: expected one argument"),
    ],
)
def test_unknown_option_suggests_the_nearest_one(words, says, capsys, wording):
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert says in err
    wording(err, tells=(str(words[0]), "--help"))


@pytest.mark.parametrize("name", commands())
def test_help_summary_is_the_first_docstring_line(name):
    module = importlib.import_module(f"unslow.commands.{name}")
    assert first_line(name) == module.__doc__.splitlines()[0]


def test_only_the_running_command_is_imported():
    code = "import sys; from unslow.__main__ import main; main(['explain', 'cpu_contended']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.splitlines()[-1].split() if name.startswith("unslow.commands.")}
    assert {name.split(".")[2] for name in loaded} & set(commands()) == {"explain"}


def test_exporter_accepts_port():
    _, asked = parse_words(["exporter", "--port", "9977"])
    assert ExporterSettings.of(asked).listen == Address("127.0.0.1", 9977)


def test_progress_and_tracebacks_send_no_escape_sequences(capsys, monkeypatch):
    with ProgressBar() as progress:
        progress.say("\x1b]0;PWN\x07 said")
        progress.step("\x1b[2J done", 0.5)

    def break_down() -> None:
        raise ValueError("\x1b]0;PWN\x07")

    monkeypatch.setattr("unslow.commands.explain.causes", break_down)
    assert main(["explain"]) == 2
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert not set("\x1b\x07") & set(told)
