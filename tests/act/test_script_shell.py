import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.act.command_words import NotUnderstoodError
from unslow.act.script import edited_script

OLD = ["/opt/llama-server", "-m", "/models/my model.gguf", "-c", "32768", "--port", "8080"]
NEW = ["/opt/llama-server", "-m", "/models/my model.gguf", "--port", "8080", "-c", "8192", "-ot", "exps=CPU;x"]


def run_with_echo(script: str) -> list[str]:
    """The words that a real shell gives to the program."""
    spoken = script.replace("/opt/llama-server", "printf '%s\\n' /opt/llama-server")
    return subprocess.run(["sh", "-c", spoken], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    "script",
    [
        '#!/bin/sh\n/opt/llama-server -m "/models/my model.gguf" -c 32768 --port 8080\n',
        "M=/models\n# comment\n/opt/llama-server -m \"$M/my model.gguf\" \\\n  -c 32768 \\\n  --port '8080'\n",
        "cd / && /opt/llama-server -m /models/my\\ model.gguf -c 32768 --port 8080 2>&1; true # -c 1\n",
        "while true; do /opt/llama-server -m '/models/my model.gguf' -c 32768 --port 8080; break; done\n",
        "if true; then exec /opt/llama-server -m '/models/my model.gguf' -c 32768 --port 8080\nfi\n",
        "C=32768\nGGML_X=1 /opt/llama-server -m '/models/my model.gguf' -c ${C:-1} --port 8080",
    ],
)
def test_a_shell_reads_the_new_words_and_the_rest_of_the_script_stays(script):
    assert run_with_echo(script) == OLD
    after = edited_script(script, OLD, NEW)
    assert run_with_echo(after) == NEW
    start = script.index("/opt/llama-server -m")
    assert after[:start] == script[:start]


def test_a_new_flag_gets_its_own_line_where_flags_have_lines():
    script = "exec /opt/llama-server \\\n    -m x \\\n    -c 1 >log 2>&1 &\nwait\n"
    after = edited_script(
        script, ["/opt/llama-server", "-m", "x", "-c", "1"], ["/opt/llama-server", "-m", "x", "-fa", "on"]
    )
    assert after == "exec /opt/llama-server \\\n    -m x \\\n    -fa on >log 2>&1 &\nwait\n"


def test_a_redirection_between_words_stays(tmp_path):
    script = (
        f"/opt/llama-server -m x 2>{tmp_path}/err -t 1 -c 4096 -ub 32 \\\n  --port 8080 >>{tmp_path}/out \\\n  -np 1\n"
    )
    old = ["/opt/llama-server", "-m", "x", "-t", "1", "-c", "4096", "-ub", "32", "--port", "8080", "-np", "1"]
    new = ["/opt/llama-server", "-m", "x", "-c", "4096", "--port", "8080", "-ctk", "q8_0"]
    after = edited_script(script, old, new)
    assert run_with_echo(after.replace(f">>{tmp_path}/out", "")) == new
    assert (tmp_path / "err").exists()
    assert after == (
        f"/opt/llama-server -m x 2>{tmp_path}/err -c 4096 \\\n  --port 8080 \\\n  -ctk q8_0 >>{tmp_path}/out\n"
    )


def test_variables_are_set_and_unset_before_the_program():
    after = edited_script("exec a -c 1\n", ["a", "-c", "1"], ["a", "-c", "2"], {"X": None, "Y": "b c"})
    assert after == "exec env -u X 'Y=b c' a -c 2\n"
    assert edited_script(after, ["a", "-c", "2"], ["a"]) == "exec env -u X 'Y=b c' a\n"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("a -c 1\na -c 1\n", "several lines have"),
        ("#!/bin/sh\r\na -c 1\r\n", "Windows line endings"),
        ("echo do a -c 1\n", "no line"),
        ("a -c 2\n", "no line"),
        ("# a -c 1\n", "no line"),
        ('ARGS="-c 1"\na $ARGS\n', "no line"),
        ('a "$@"\n', "no line"),
        ("a -c $(nproc)\n", "no line"),
        ("cat <<E\na -c 1\nE\n", "here-document"),
        ('a -c "1\n', "unclosed"),
        ("a " * 40_000, "too long"),
        ("a -c '1'>log", "directly after a word"),
    ],
)
def test_an_uncertain_script_is_not_edited(script, why):
    with pytest.raises(NotUnderstoodError, match=why):
        edited_script(script, ["a", "-c", "1"], ["a"])


USAGE = "llama-server -c 1\n"
COMMAND = "llama-server -c 1 # it's\n"


@pytest.mark.parametrize(
    "text",
    [
        f"usage='start it with\n{USAGE}'\n",
        f'usage="start \\"it\\" with\n{USAGE}"\n',
        f'usage="$(echo "it\'s\n{USAGE}")"\n',
        f"usage=$'it\\'s\n{USAGE}'\n",
        f": ' a long comment \"\n{USAGE} \" '\n",
        f'usage="${{X:-\n{USAGE}}}"\n',
        f"echo `echo 'x\n{USAGE}'` # don't\n",
        f"echo it\\'s not ${{#X}} $# x#'y\n{USAGE}'\n",
        f"echo \\\n{USAGE}",
    ],
)
def test_a_command_inside_a_quoted_multi_line_text_is_not_edited(text):
    """Each text contains the command line; a shell starts nothing from it, and only the real command is edited."""
    old, new = ["llama-server", "-c", "1"], ["llama-server", "-c", "2"]
    watched = f"function llama-server {{ echo STARTED; }}\n{text}"
    done = subprocess.run(["bash", "-c", watched], capture_output=True, text=True, check=True)
    assert "STARTED" not in done.stdout
    with pytest.raises(NotUnderstoodError, match=r"quoted string|no line"):
        edited_script(text, old, new)
    assert edited_script(text + COMMAND, old, new) == text + COMMAND.replace("-c 1", "-c 2")
    assert edited_script(COMMAND + text, old, new) == COMMAND.replace("-c 1", "-c 2") + text


def test_an_unclosed_quote_is_not_edited():
    with pytest.raises(NotUnderstoodError, match="an unclosed quote"):
        edited_script("echo 'x\nllama-server -c 1\n", ["llama-server", "-c", "1"], ["llama-server"])


def test_a_multi_line_word_is_one_word():
    script = "llama-server --grammar 'root ::= a\nllama-server -c 1\n' -c 1\n"
    old = ["llama-server", "--grammar", "root ::= a\nllama-server -c 1\n", "-c", "1"]
    assert edited_script(script, old, [*old[:-1], "2"]) == script[:-2] + "2\n"


WORDS = st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8), min_size=1, max_size=5)


@given(old=WORDS, new=WORDS)
def test_any_words_are_replaced_by_any_others(old, new):
    old, new = ["/opt/llama-server", *old], ["/opt/llama-server", *new]
    line = f"exec {shlex.join(old)} # end\n"
    try:
        after = edited_script(line, old, new)
    except NotUnderstoodError:
        return  # `<<` in a word; what is edited has to be right
    assert shlex.split(after, comments=True)[1:] == new
    assert after.endswith(" # end\n")
