"""Faults made for real, each with its cure: is the first cause right, and is the cured speed as predicted.

python -m lab.faults --list
python -m lab.faults --where cpu --server llama-server --models FOLDER --out FOLDER
python -m lab.faults --where gpu --make-models FOLDER      random weights of six shapes, 70 GB (--where cpu: small ones)
python -m lab.faults --where gpu --server llama-server --models FOLDER --out FOLDER --verbosity 4 [--only kv_on_host]
python -m lab.faults --table FOLDER/rows.jsonl
python -m lab.faults --again FOLDER      the recordings of an earlier run, judged by the causes as they are now
"""
