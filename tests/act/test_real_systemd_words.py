"""A real systemd passes exactly the intended words of a drop-in to the program."""

import json
import random
import sys
from pathlib import Path

import pytest
from real_systemd import NEEDED, Booted, booted

from unslow.act.systemd import UnitFile, drop_in

pytestmark = NEEDED
PATTERN = r"blk\.(0|1)\.(ffn_up\.weight)=CPU"
SIGNS = [chr(code) for code in (*range(32, 127), *range(0xA1, 0x250))] + list("\\\\%%$$\"\"''  ;;")
DICE = random.Random(8)
WORDS = {
    "tensor override": ["-ot", PATTERN],
    "several of them": ["-ot", f"{PATTERN},output\\.weight=CUDA0;x"],
    "percent": ["%i", "%%", "100%", "a%b", "%"],
    "dollar": ["$HOME", "${HOME}", "$$", "a$", "$1", "$"],
    "backslash": ["\\", "\\\\", "a\\", "\\n", "\\x41", "\\.", "C:\\x"],
    "quotes": ['"', "'", 'a"b', "it's", '"\'"', "'a b'"],
    "blanks": ["a b", " a", "a ", "", " "],
    "signs": [";", "a;b", "#x", "a#b", "|", "&", "*", "~", "{a,b}", "=", "@", "-", "--", "é", "日本"],
    "prefixes": ["-a", ":b", "+c", "!d", "@e"],
    "any": ["".join(DICE.choices(SIGNS, k=DICE.randrange(12))) for _ in range(400)],
}
STARTS = {
    "plain": "{program} -c 1 --key ${{KEY}} --unit %n --percent 5%% --dollar $$x",
    "without variables": ":{program} -c 1 --key $KEY --unit %n --percent 5%% --dollar $x",
    "may fail": '-{program} -c "1" --key "${{KEY}}" --unit \'%n\' \\\n  # why\n  --percent 5%% --dollar $$x',
}
RECORDER = """#!{python}
import json, os, sys
shown = {{"argv": sys.argv, "environment": {{n: os.environ.get(n) for n in ("KEY", "NEW", "GONE")}}}}
open({out!r} + "/" + os.environ["NAME"], "w").write(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("systemd")


def unit(folder: Path, name: str, start: str) -> str:
    return (
        f"[Service]\nType=oneshot\nEnvironment=NAME={name} KEY=k1 GONE=1\n"
        f"ExecStart={start.format(program=folder / 'recorder')}\n"
    )


@pytest.fixture(scope="module")
def systemd(folder: Path):
    """One unit for each way to write a command and each set of words."""
    units, out = folder / "units", folder / "out"
    units.mkdir()
    out.mkdir()
    recorder = folder / "recorder"
    recorder.write_text(RECORDER.format(python=sys.executable, out=str(out)))
    recorder.chmod(0o755)
    for start, text in STARTS.items():
        for words in WORDS:
            name = f"{start}-{words}".replace(" ", "_")
            (units / f"{name}.service").write_text(unit(folder, name, text))
    with booted(units) as system:
        yield system


def recorded(system: Booted, folder: Path, name: str) -> dict:
    system.run("systemctl", "start", f"{name}.service")
    return json.loads((folder / "out" / name).read_text())


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("words", WORDS)
def test_systemd_passes_the_intended_words_to_the_program(systemd, folder, start, words):
    name = f"{start}-{words}".replace(" ", "_")
    text = unit(folder, name, STARTS[start])
    old = recorded(systemd, folder, name)["argv"]
    key = "$KEY" if start == "without variables" else "k1"
    rest = ["--key", key, "--unit", f"{name}.service", "--percent", "5%", "--dollar", "$x"]
    assert old == [str(folder / "recorder"), "-c", "1", *rest]
    new = [old[0], *rest, "-c", "2", *WORDS[words]]
    value = " ".join(WORDS[words])
    written = drop_in([UnitFile("", text)], old, new, {"NEW": value, "GONE": None})
    where = f"/etc/systemd/system/{name}.service.d"
    systemd.run("mkdir", "-p", where)
    systemd.run("sh", "-c", 'printf %s "$1" > "$2/90-unslow.conf"', "sh", written, where)
    systemd.run("systemctl", "daemon-reload")
    seen = recorded(systemd, folder, name)
    assert seen["argv"] == new
    assert seen["environment"] == {"KEY": "k1", "NEW": value, "GONE": None}
    systemd.run("rm", "-r", where)
    systemd.run("systemctl", "daemon-reload")
    assert recorded(systemd, folder, name)["argv"] == old
