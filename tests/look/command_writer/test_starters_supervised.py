import json
import os
import shlex
import subprocess

import pytest

from unslow.facts.commands import Place, parse_line
from unslow.look.command_writer.starters import Unit, drop_in, in_unit, shell_line, starting_lines

WORDS = ["/usr/bin/llama-server", "-m", "/m/a b.gguf", "-ot", r"blk\.(1|2)\.ffn=CPU", "--api-key", "KEY"]
VARIABLES = {"A": "1 2", "B": None}
HIDDEN = "by hand: KEY stands for a secret that is not shown: fill it in"


def test_a_shell_gets_one_start_line():
    hidden, line = starting_lines(WORDS, VARIABLES)
    assert hidden == HIDDEN
    assert line == shell_line(WORDS, VARIABLES)
    assert shlex.split(line) == ["env", "-u", "B", "A=1 2", *WORDS]
    assert starting_lines(["llama-server"], {}) == ("llama-server",)


def test_a_systemd_service_gets_a_drop_in():
    _, *lines, again = starting_lines(WORDS, VARIABLES, unit=Unit("llama.service"))
    assert again == "sudo systemctl daemon-reload && sudo systemctl restart llama"
    folder = "/etc/systemd/system/llama.service.d"
    command = r'ExecStart=/usr/bin/llama-server -m "/m/a b.gguf" -ot "blk\\.(1|2)\\.ffn=CPU" --api-key KEY'
    files = {"A": ['Environment="A=1 2"'], "B": ["UnsetEnvironment=B"], "command": ["ExecStart=", command]}
    for (name, text), line in zip(files.items(), lines, strict=True):
        written = ["printf", r"%s\n", "[Service]", *text, "|", "sudo", "tee", f"{folder}/zz-{name}.conf"]
        assert shlex.split(line) == ["sudo", "mkdir", "-p", folder, "&&", *written]
    assert "full path" in starting_lines(["llama-server"], {}, unit=Unit("a.service"))[0]


@pytest.mark.parametrize("of_user", [False, True])
def test_drop_in_lines_run_in_a_shell_and_restart_once(tmp_path, of_user):
    root = tmp_path / "root"
    made = tmp_path / ("home/.config/systemd/user" if of_user else "root/etc/systemd/system")
    lines = drop_in(Unit("ollama.service", of_user=of_user), {"OLLAMA_X": "it's 5 %", "OLLAMA_Y": None})
    stub = f'sudo() {{ if [ "$1" = systemctl ]; then "$@"; else "$1" "${{@:2:$#-2}}" {root}"${{@: -1}}"; fi; }}'
    script = f'{stub}\nsystemctl() {{ echo called: "$@"; }}\n' + "\n".join(lines)
    done = subprocess.run(["bash", "-c", script], env={"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert not done.stderr
    asked = [line for line in done.stdout.splitlines() if line.startswith("called")]
    user = "--user " if of_user else ""
    assert asked == [f"called: {user}daemon-reload", f"called: {user}restart ollama"]
    folder = made / "ollama.service.d"
    assert (folder / "zz-OLLAMA_X.conf").read_text() == '[Service]\nEnvironment="OLLAMA_X=it\'s 5 %%"\n'
    assert (folder / "zz-OLLAMA_Y.conf").read_text() == "[Service]\nUnsetEnvironment=OLLAMA_Y\n"


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("plain", "plain"), ("", '""'), ("50%", "50%%"), ("$HOME", "$$HOME"), ('say "x"', r'"say \"x\""'),
        ("a\nExecStartPre=/bin/x", r'"a\nExecStartPre=/bin/x"'), ("it's", '"it\'s"'), ("a;b", '"a;b"'),
    ],
)  # fmt: skip
def test_words_are_escaped_for_systemd_units(word, written):
    assert in_unit(word, dollars="$$") == written
    assert "\n" not in in_unit(word)


def test_a_drop_in_with_variables_keeps_the_units_command():
    written, _restart = drop_in(Unit("ollama.service"), {"OLLAMA_X": "$1"})
    assert "printf '%s\\n' '[Service]' 'Environment=\"OLLAMA_X=$1\"' |" in written


def test_a_container_gets_compose_and_docker_run_lines():
    compose, up, run, hidden = starting_lines([*WORDS, "$x"], VARIABLES, "docker")
    place, text = parse_line(compose)
    command, *variables = text.split("\n")
    assert place is Place.COMPOSE
    assert json.loads(command.removeprefix("command: ")) == [*WORDS[1:], "$$x"]
    assert variables == ["environment:", '  A: "1 2"', "# without B"]
    assert up == "docker compose up -d"
    assert "docker run" in run
    assert "-e 'A=1 2'" in run
    assert hidden == HIDDEN
    assert len(starting_lines(["a"], {}, "docker compose")) == 2


def test_a_kubernetes_pod_gets_args_and_env_in_its_manifest():
    manifest, apply = starting_lines(["a", "-c", "1"], {"A": "1"}, "kubernetes")
    assert parse_line(manifest) == (Place.MANIFEST, 'args: ["-c", "1"]\nenv:\n  - {name: A, value: "1"}')
    assert apply == "kubectl apply -f FILE"


def test_a_front_that_starts_the_server_is_named():
    assert "llama-swap at http://x" in starting_lines(["a"], {}, front="llama-swap at http://x")[0]
