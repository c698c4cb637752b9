"""Faults of real runtimes other than llama-server, one module for each: how it is started, its faults and their cures.

They are played as those of lab/faults, by the name of the module:

python -m lab.faults --where ollama --server FOLDER_OF_PROGRAMS --models FOLDER --out FOLDER

A module has FAULTS, and RUNTIME that says how a stage is played and measured. Speeds of a machine that does other work
at the same time mean nothing, so nothing else should run meanwhile.
"""
