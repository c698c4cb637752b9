"""The command line of the lab."""

import argparse
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
from lab.faults.again import judged_again
from lab.faults.diagnosing import LIMIT_S
from lab.faults.every import every_fault, faults_of, places, runtime_of
from lab.faults.fault import Fault
from lab.faults.keeping import keep
from lab.faults.large_models import make_large_models
from lab.faults.models import make_models
from lab.faults.playing import Place
from lab.faults.rows import Row, append, read_rows, table
from lab.faults.running import Limits, run_fault


def parser() -> argparse.ArgumentParser:
    """What may be asked of it."""
    made = argparse.ArgumentParser(
        prog="python -m lab.faults", description=sys.modules["lab.faults"].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("--where", choices=places(), default="cpu")
    made.add_argument("--server", type=Path, help="llama-server, or a folder of programs")
    made.add_argument("--models", type=Path, help="the folder of .gguf files")
    made.add_argument("--out", type=Path, help="the folder for rows.jsonl and the recordings")
    made.add_argument("--only", nargs="+", metavar="NAME", help="these faults alone")
    made.add_argument("--fresh", action=argparse.BooleanOptionalAction, help="the fresh cases alone, or all the others")
    made.add_argument("--list", action="store_true", help="say which faults there are")
    made.add_argument("--keep-going", action="store_true", help="go on with the next fault where one breaks")
    made.add_argument("--resume", action="store_true", help="leave out the faults that OUT has a row of")
    made.add_argument("--seconds", type=float, default=LIMIT_S, help="the longest that one diagnosis may take")
    made.add_argument("--quiet-s", type=float, default=30.0, help="how long to wait for strangers to leave the CPUs")
    made.add_argument(
        "--rounds", type=int, default=2, help="how often fault and cure are measured, in turns; 0: only diagnosed"
    )
    made.add_argument(
        "--together", type=int, default=1, help="start the servers of so many faults at once, if the runtime can"
    )
    made.add_argument("--no-cures", action="store_true", help="only diagnose: play no cure")
    made.add_argument("--quick", action="store_true", help="diagnose with --quick")
    made.add_argument("--budget-s", type=int, metavar="N", help="diagnose with --seconds N")
    made.add_argument("--port", type=int, default=8640)
    made.add_argument("--verbosity", help="-lv of every server")
    made.add_argument("--no-log", action="store_true", help="no server writes a log: what is known without one?")
    made.add_argument("--table", type=Path, metavar="ROWS", help="print the table of a rows.jsonl")
    made.add_argument(
        "--again", type=Path, nargs="+", metavar="OUT", help="judge earlier runs once more, the last counts"
    )
    made.add_argument("--save", type=Path, metavar="ROWS", help="with --again: write the rows there")
    made.add_argument("--keep", type=Path, metavar="MACHINES", help="with --again: keep what was diagnosed right there")
    made.add_argument("--make-models", type=Path, metavar="FOLDER", help="make the models that the faults need")
    return made


def main() -> int:
    """Do what was asked; 1 where a fault was not diagnosed right."""
    args = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: what was started is ended on the way out
    if args.list:
        print("\n".join(f"{'/'.join(f.where):8} {f.name:34} {f.cause or 'healthy':34} {f.what}" for f in every_fault()))
        return 0
    if args.table:
        print(table(read_rows(args.table)))
        return 0
    if args.again:
        return once_more(args)
    if args.make_models:
        (make_large_models if args.where == "gpu" else make_models)(args.make_models)
        return 0
    return play(args)


def once_more(args: argparse.Namespace) -> int:
    """Judge what earlier runs recorded; of a fault that several of them played, the last counts."""
    last = {(row.where, row.name): (row, out) for out in args.again for row in judged_again(out)}
    known = {(where, fault.name) for fault in every_fault() for where in fault.where}
    rows = [row for key, (row, _) in last.items() if key in known]
    if args.save:
        args.save.parent.mkdir(parents=True, exist_ok=True)
        args.save.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    for key, (row, out) in last.items() if args.keep else ():
        for folder in keep([row], out, args.keep) if key in known else ():
            print(f"kept {folder.name}")
    print(table(rows))
    return 0


def play(args: argparse.Namespace) -> int:
    """Play the faults that were asked for, one after the other."""
    missing = [name for name in ("server", "models", "out") if getattr(args, name) is None]
    known = faults_of(args.where)
    unknown = set(args.only or ()) - set(known)
    if missing or unknown:
        parser().error(f"missing: {', '.join(missing)}" if missing else f"no such fault: {', '.join(sorted(unknown))}")
    args.out.mkdir(parents=True, exist_ok=True)
    usual = ("-lv", args.verbosity) if args.verbosity else ()
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        place = Place(args.server, args.models, args.port, Path(scratch), usual, not args.no_log)
        rows = []
        for group in batched(chosen(args, known), args.together):
            with runtime_of(args.where).ahead(group, place):
                rows += [one(fault, args, place) for fault in group]
    print(table(rows))
    return int(any(not row.right for row in rows if not row.skipped))


def chosen(args: argparse.Namespace, known: dict[str, Fault]) -> list[Fault]:
    """The faults to play, in their own order."""
    path = args.out / "rows.jsonl"
    done = {row.name for row in read_rows(path)} if args.resume and path.is_file() else set()
    return [
        fault for name, fault in known.items()
        if name in (args.only or known) and name not in done and args.fresh in (None, fault.fresh)
    ]  # fmt: skip


def batched(faults: list[Fault], size: int) -> list[list[Fault]]:
    """In groups of so many, in their own order."""
    return [faults[at : at + size] for at in range(0, len(faults), size)]


def one(fault: Fault, args: argparse.Namespace, place: Place) -> Row:
    """Play one, and write its row down at once."""
    print(f"{fault.name}: {fault.what}", flush=True)
    limits = Limits(args.seconds, args.quiet_s, args.rounds)
    flags = ("--seconds", str(args.budget_s)) if args.budget_s else ("--quick",) if args.quick else ()
    fault = replace(fault, flags=(*fault.flags, *flags), cure=None if args.no_cures else fault.cure)
    try:
        row = run_fault(
            fault, args.where, place, args.out, limits, lambda text: print(text, flush=True), runtime_of(args.where)
        )
    except (OSError, RuntimeError, ValueError) as error:
        if not args.keep_going:
            raise
        trouble = f"{type(error).__name__}: {error}"
        row = Row(name=fault.name, where=args.where, what=fault.what, cause=fault.cause, trouble=trouble)
    append(row, args.out / "rows.jsonl")
    print(table([row]).split("\n")[1], flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
