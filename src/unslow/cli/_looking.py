"""The flags of every command that diagnoses: what to look at, and how much it may ask of it."""

import argparse


def add_looking_arguments(parser: argparse.ArgumentParser, *, keeps: bool = True) -> None:
    """The target, the time and the manners of a diagnosis; `keeps` is for those that can write what was seen."""
    add = parser.add_argument
    add("target", nargs="?", metavar="TARGET", help="URL, process id, snapshot or recording folder")
    add("--passive", action="store_true", help="send no prompt to any runtime and start none; only read")
    time = parser.add_mutually_exclusive_group()
    time.add_argument("--quick", action="store_true", help="be done in about 10 seconds; the default is 60 at most")
    time.add_argument("--thorough", action="store_true", help="take up to 300 seconds, and try more")
    time.add_argument("--seconds", type=float, metavar="N", help="be done in so many seconds at most")
    add("--goal", type=float, metavar="TOK_S", help="the speed that you want, in tokens per second")
    add("--context", type=int, metavar="TOKENS", help="the context length that you need")
    add("--api-key", metavar="KEY", help="for a server that asks for one (or UNSLOW_API_KEY)")
    add("--log", metavar="FILE", help="the server's log, where it can't be found")
    add("--evict", action="store_true", help="measure even if a chat must then read its prompt again")
    add("--model", metavar="SHAPE", help="the made-up model for the embedded engine, such as llama_1b")
    if not keeps:
        parser.set_defaults(save=None, record=None)
        return
    add("--save", metavar="FILE", help="also write the snapshot, masked")
    add("--record", metavar="DIR", help="also keep all raw answers, to be diagnosed again anywhere")
