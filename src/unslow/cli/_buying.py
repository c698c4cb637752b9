"""Flags that the buyer's commands share."""

import argparse


def add_work(parser: argparse.ArgumentParser, *, needed: bool) -> None:
    """The model, and how it is used."""
    add = parser.add_argument
    add("--model", required=needed, metavar="MODEL", help="well-known name, file, URL or stored model")
    add("--quant", metavar="NAME", help="for a name with no file (default: as published, else Q4_K_M)")
    add("-c", "--context", metavar="N", help="tokens that are in the context: 8192 (default) or 32k")
    add("--users", metavar="N", help="conversations at once, each with such a context (default: 1)")
    add("--prompt", metavar="N", help="tokens of the prompt whose reading is predicted (default: 512)")
    add("-ctk", "--kv-type", metavar="TYPE", help="of keys and values (default: f16)")


def add_prices(parser: argparse.ArgumentParser) -> None:
    """The buyer's own prices."""
    group = parser.add_argument_group("prices; yours always win")
    add = group.add_argument
    add("--price", action="append", metavar="NAME=AMOUNT", help='of one device: "RTX 3090=700"; may be repeated')
    add("--prices", metavar="FILE.toml", help="a file with [prices], [rents], [apis], currency and electricity")
    add("--currency", metavar="NAME", help="of your prices (default: USD; shipped prices count in USD alone)")
