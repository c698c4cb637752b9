"""The command line of the experiment."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.plan_gpu.cases import LONG_TOKENS, SHORT_TOKENS, Case, chosen
from lab.plan_gpu.making import make_all
from lab.plan_gpu.serving import Arm
from lab.plan_gpu.session import Session
from lab.plan_gpu.sheet import Sheet
from lab.plan_gpu.sweeps import sweeps

_MACHINE = (("nvidia-smi",), ("lscpu",), ("free", "-g"))
_DULL = ("Flags", "Vulnerability")


def parser() -> argparse.ArgumentParser:
    """What may be asked of it."""
    made = argparse.ArgumentParser(
        prog="python -m lab.plan_gpu", description=sys.modules["lab.plan_gpu"].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("--server", type=Path, required=True, help="llama-server")
    made.add_argument("--models", type=Path, required=True, help="the folder that models are made in")
    made.add_argument("--out", type=Path, required=True, help="the file of rows")
    made.add_argument("--only", default="", help="groups: 8b,moe,70b")
    made.add_argument("--cases", default="", help="cases by name")
    made.add_argument("--sweep", choices=sorted(sweeps()), help="its case alone, with the stated settings")
    made.add_argument("--arms", default="", help="fit,plan or one of them; none: only those of --arm")
    made.add_argument("--arm", action="append", default=[], metavar="NAME=ARGS", help="settings made by hand")
    made.add_argument("--plan-args", default="", help="more words for unslow plan")
    made.add_argument("--rounds", type=int, default=0, help="2; of a sweep 1")
    made.add_argument("--seconds", type=float, default=560, help="ends cleanly before that")
    made.add_argument("--go-on", action="store_true", help="what --out lacks")
    made.add_argument("--short", type=int, default=SHORT_TOKENS, help="tokens of the short prompt")
    made.add_argument("--long", type=int, default=LONG_TOKENS)
    made.add_argument("--shorts", type=int, default=2, help="short requests in each life")
    made.add_argument("--most-s", type=float, default=4.0, help="an answer is cut to about so long")
    made.add_argument("--makers", type=int, default=os.cpu_count() or 1)
    made.add_argument("--port", type=int, default=8660)
    made.add_argument("--no-gpu", action="store_true", help="nobody holds memory: a try on a CPU")
    made.add_argument("--log", type=Path, help="the server's log, written anew by each life")
    return made


def main() -> int:
    """Look, make the models, play; 1 where there was no time for all of it."""
    args = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: what was started is ended on the way out
    args.rounds = args.rounds or (1 if args.sweep else 2)
    args.server = args.server.resolve()
    cases, more = asked(args)
    sheet = Sheet(args.out, go_on=args.go_on)
    machine = described(args.server)
    print(machine, flush=True)
    sheet.write({"kind": "machine", "text": machine})
    with tempfile.TemporaryDirectory(prefix="plan-gpu-") as scratch:
        args.log = args.log or Path(scratch) / "server.log"
        session = Session(cases, sheet, args, more)  # its clock begins here, with the models
        make_all([case.model for case in cases], args.models, args.makers)
        return 0 if session.play() else 1


def asked(args: argparse.Namespace) -> tuple[list[Case], list[Arm]]:
    """Cases, and arms beside the usual ones."""
    by_hand = [Arm(name, tuple(shlex.split(words))) for name, _, words in (one.partition("=") for one in args.arm)]
    if args.sweep:
        name, arms = sweeps()[args.sweep]
        return chosen([], [name]), [*arms, *by_hand]
    try:
        return chosen(_listed(args.only), _listed(args.cases)), by_hand
    except LookupError as error:
        parser().error(str(error.args[0]))


def _listed(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def described(server: Path) -> str:
    """The machine and the program in their own words."""
    parts = []
    for words in (*_MACHINE, (str(server), "--version")):
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
            lines = (done.stdout + done.stderr).splitlines()
        except OSError as error:
            lines = [str(error)]
        parts += [f"$ {Path(words[0]).name} {' '.join(words[1:])}", *(li for li in lines if not li.startswith(_DULL))]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
