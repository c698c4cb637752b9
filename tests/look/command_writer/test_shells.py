"""Unix command lines translated for the shells of Windows."""

import re

import pytest

from unslow.facts.commands import Place, parse_line
from unslow.look.command_writer.starters import lines_for_system

UNIX = re.compile(r"\bunset\b|\bexport\b|\benv -u\b|\bsudo\b|&&|\bcurl\b")
LINES = {
    "unset CUDA_VISIBLE_DEVICES": ["in PowerShell: Remove-Item Env:CUDA_VISIBLE_DEVICES",
                                   "in cmd.exe: set CUDA_VISIBLE_DEVICES="],
    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True": [
        "in PowerShell: $env:PYTORCH_CUDA_ALLOC_CONF = 'expandable_segments:True'",
        "in cmd.exe: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ],
    r"env -u A -u B 'C:\llama cpp\llama-server.exe' -m m.gguf": [
        r'in PowerShell: Remove-Item Env:A, Env:B; & "C:\llama cpp\llama-server.exe" -m m.gguf'
    ],
    "VLLM_ATTENTION_BACKEND=FLASH_ATTN vllm serve x": [
        "in PowerShell: $env:VLLM_ATTENTION_BACKEND = 'FLASH_ATTN'; vllm serve x"
    ],
    "lms unload m && lms load m --gpu max": ["lms unload m", "lms load m --gpu max"],
    """curl http://127.0.0.1:1234/api/v1/models/load -H 'Content-Type: application/json' -d '{"model": "m"}'""": [
        (
            "in PowerShell: Invoke-RestMethod http://127.0.0.1:1234/api/v1/models/load -Method Post "
            """-ContentType application/json -Body '{"model": "m"}'"""
        )
    ],
    "sudo nvidia-smi -pl 115": ["by hand: in an administrator prompt: nvidia-smi -pl 115"],
    r"llama-server -m 'D:\my models\m.gguf'": [r'llama-server -m "D:\my models\m.gguf"'],
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_unix_lines_are_translated_for_windows(line: str):
    said = lines_for_system([line], "Windows")
    assert said == LINES[line]
    assert not any(UNIX.search(text) for text in said)


@pytest.mark.parametrize("system", ["", "Linux", "macOS"])
def test_linux_and_macos_keep_unix_lines(system: str):
    assert lines_for_system(list(LINES), system) == list(LINES)


@pytest.mark.parametrize(
    "line",
    [
        'setx OLLAMA_NUM_PARALLEL "1"', r"reg delete HKCU\Environment /F /V OLLAMA_KEEP_ALIVE", "-ngl 20",
        "by hand: quit Ollama and start it again", "nvidia-smi", 'in a request: "think": false',
    ],
)  # fmt: skip
def test_lines_that_work_on_windows_stay(line: str):
    assert lines_for_system([line], "Windows") == [line]


def test_an_unclosed_quote_leaves_the_line_unchanged():
    assert lines_for_system(["llama-server -m 'x"], "Windows") == ["llama-server -m 'x"]


def test_each_windows_line_has_a_known_place():
    places = {parse_line(said).place for line in LINES for said in lines_for_system([line], "Windows")}
    assert places == {Place.POWERSHELL, Place.CMD, Place.SHELL, Place.HAND}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("llama-server -m '/m/$(calc).gguf'", ["llama-server -m '/m/$(calc).gguf'"]),
        ("""export A='x'"'"'; calc'""", ["in PowerShell: $env:A = 'x''; calc'"]),
        ("export A='1 & calc'", ["in PowerShell: $env:A = '1 & calc'"]),
    ],
)
def test_shell_metacharacters_in_names_are_never_executed(line: str, said: list[str]):
    assert lines_for_system([line], "Windows") == said


def test_several_variables_before_a_command_are_translated():
    (line,) = lines_for_system(["env -u A -u B C=1 D='x y' llama-server -ot 'a|b=CPU'"], "Windows")
    assert line == (
        "in PowerShell: Remove-Item Env:A, Env:B; $env:C = '1'; $env:D = 'x y'; llama-server -ot \"a|b=CPU\""
    )
    assert lines_for_system(["A=1 B=2 run it"], "Windows") == ["in PowerShell: $env:A = '1'; $env:B = '2'; run it"]
    assert lines_for_system(["A=1 B=2 run it"], "Linux") == ["A=1 B=2 run it"]
