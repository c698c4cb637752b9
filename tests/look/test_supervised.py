import json
import shlex

import pytest

from unslow.facts.placed import Place, line_of
from unslow.look.at_hand import Unit
from unslow.look.supervised import drop_in_text, in_unit, shell_line, started

WORDS = ["/usr/bin/llama-server", "-m", "/m/a b.gguf", "-ot", r"blk\.(1|2)\.ffn=CPU", "--api-key", "KEY"]
VARIABLES = {"A": "1 2", "B": None}
HIDDEN = "by hand: KEY stands for a secret that is not shown here: put it in"


def test_a_shell_gets_one_line():
    hidden, line = started(WORDS, VARIABLES)
    assert hidden == HIDDEN
    assert line == shell_line(WORDS, VARIABLES)
    assert shlex.split(line) == ["env", "-u", "B", "A=1 2", *WORDS]
    assert started(["llama-server"], {}) == ("llama-server",)


def test_a_service_gets_a_drop_in():
    _, edit, text, again = started(WORDS, VARIABLES, unit=Unit("llama.service"))
    assert (edit, again) == ("sudo systemctl edit llama", "sudo systemctl restart llama")
    command = r'ExecStart=/usr/bin/llama-server -m "/m/a b.gguf" -ot "blk\\.(1|2)\\.ffn=CPU" --api-key KEY'
    parts = ["[Service]", 'Environment="A=1 2"', "UnsetEnvironment=B", "ExecStart=", command]
    assert line_of(text) == (Place.DROP_IN, "\n".join(parts))
    assert started(["/x"], {}, unit=Unit("a.service", of_user=True))[0] == "systemctl --user edit a"
    assert "whole path" in started(["llama-server"], {}, unit=Unit("a.service"))[0]


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("plain", "plain"), ("", '""'), ("50%", "50%%"), ("$HOME", "$$HOME"), ('say "x"', r'"say \"x\""'),
        ("a\nExecStartPre=/bin/x", r'"a\nExecStartPre=/bin/x"'), ("it's", '"it\'s"'), ("a;b", '"a;b"'),
    ],
)  # fmt: skip
def test_systemd_reads_each_word_as_it_is(word, written):
    assert in_unit(word, dollars="$$") == written
    assert "\n" not in in_unit(word)


def test_variables_alone_leave_the_command_of_the_unit():
    assert drop_in_text({"OLLAMA_X": "$1"}) == '[Service]\nEnvironment="OLLAMA_X=$1"'


def test_a_container_gets_its_arguments():
    compose, up, run, hidden = started([*WORDS, "$x"], VARIABLES, "docker")
    place, text = line_of(compose)
    command, *variables = text.split("\n")
    assert place is Place.COMPOSE
    assert json.loads(command.removeprefix("command: ")) == [*WORDS[1:], "$$x"]
    assert variables == ["environment:", '  A: "1 2"', "# without B"]
    assert up == "docker compose up -d"
    assert "docker run" in run
    assert "-e 'A=1 2'" in run
    assert hidden == HIDDEN
    assert len(started(["a"], {}, "docker compose")) == 2


def test_a_pod_gets_arguments_in_its_manifest():
    manifest, apply = started(["a", "-c", "1"], {"A": "1"}, "kubernetes")
    assert line_of(manifest) == (Place.MANIFEST, 'args: ["-c", "1"]\nenv:\n  - {name: A, value: "1"}')
    assert apply == "kubectl apply -f FILE"


def test_who_else_starts_it_is_named():
    assert "llama-swap at http://x" in started(["a"], {}, front="llama-swap at http://x")[0]
