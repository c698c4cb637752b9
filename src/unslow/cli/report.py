"""Write the diagnosis with all its pictures into one file, to keep or to attach to an issue.

The page opens from disk, asks nobody for anything, and works without a script. Names of users, keys, prompts, serial
numbers and public addresses are taken out, unless --no-mask is given; names of files stay. TARGET is a URL, a process
id, a snapshot file or a recording folder; without one, this machine, measured as `unslow diagnose` does it. A file of
that name is replaced.

examples:
  unslow report                              writes unslow-report.html
  unslow report -o slow.html --quick
  unslow report seen.json -o issue.md        Markdown for GitHub, by the name of the file
  unslow report --bench before.json --bench after.json
  unslow report http://127.0.0.1:8080 --verify verified.json -o - > page.html

exit status: 0 written, 2 could not run
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._looking import add_looking_arguments  # noqa: PLC0415

    add = parser.add_argument
    add_looking_arguments(parser)
    add("-o", "--output", metavar="FILE", help="where to write; - is standard output (default: unslow-report.html)")
    add("--format", metavar="FORMAT", help="html, markdown or json (default: by the name of the file, else html)")
    add("--json", dest="format", action="store_const", const="json", help="same as --format json")
    add("--title", metavar="TEXT", help="what to call it")
    add("--no-mask", action="store_true", help="leave names, paths and addresses in")
    add("--bench", action="append", default=[], metavar="FILE", help="with a benchmark's curves; may be repeated")
    add("--verify", metavar="FILE", help="with before and after: what `unslow verify --json` wrote")
    add("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Write it."""
    from unslow.app.page_report import Wanted, write_report  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import Progress  # noqa: PLC0415

    wanted = Wanted.from_flags(vars(args))
    with Progress(quiet=args.quiet) as progress:
        write_report(wanted, progress)
    return 0
