"""Machines that nobody recorded, built from published reports and documented counters.

Heat, power, links, AMD, Apple, Windows, several GPUs, other runtimes: each is marked as built, by its name and in its
expected.toml, which also says where its figures come from.
"""
