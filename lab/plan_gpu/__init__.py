"""Plans against llama.cpp's own fit, with most of a GPU's memory held by a stranger.

PYTHONPATH=src python -m lab.plan_gpu --server llama-server --models /dev/shm --out plan_gpu.jsonl --only 8b,moe
PYTHONPATH=src python -m lab.plan_gpu ... --only 70b --seconds 560 --go-on      into the same file, what it lacks
PYTHONPATH=src python -m lab.plan_gpu ... --sweep 8b                             stated settings in a random order
PYTHONPATH=src python -m lab.plan_gpu ... --cases 8b_5g_16k --arm 'mine=-ngl 24 -ctk q8_0 -ctv q8_0 -fa on'
PYTHONPATH=src python -m lab.plan_gpu --server llama-server --models DIR --out FILE --no-gpu --only tiny   on a CPU
python -m lab.plan_gpu.table lab/data/plan_gpu.jsonl
"""
