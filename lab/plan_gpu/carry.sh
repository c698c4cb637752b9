#!/bin/sh
# Packs what a machine with a GPU and no network lacks, into dist/plan_gpu (which git ignores):
#   sh lab/plan_gpu/carry.sh BIN [PYTHON]
# BIN: the folder with llama-server, built with CUDA, and its libraries; PYTHON: the version there (3.12).
# There:
#   mkdir -p /dev/shm/bin && tar -xJf dist/plan_gpu/llama.tar.xz -C /dev/shm/bin
#   mkdir -p /dev/shm/python && tar -xJf dist/plan_gpu/python.tar.xz -C /dev/shm/python
#   PYTHONPATH=src:/dev/shm/python LD_LIBRARY_PATH=/dev/shm/bin python3 -m lab.plan_gpu --server /dev/shm/bin/llama-server ...
set -eu
bin=$1
python=${2:-3.12}
here=$(cd "$(dirname "$0")/../.." && pwd)
out=$here/dist/plan_gpu
rm -rf "$out"
mkdir -p "$out/python"
"$here/.venv/bin/pip" install -q --no-deps --only-binary=:all: --python-version "$python" --target "$out/python" \
    msgspec ahocorasick_rs nvidia-ml-py rich markdown-it-py mdurl pygments tomli
find "$out/python" -name __pycache__ -prune -exec rm -rf {} +
stripped=$(mktemp -d)
trap 'rm -rf "$stripped"' EXIT
for file in "$bin"/llama-server "$bin"/*.so*; do
    case $file in
        *'*'*) continue ;; # linked statically: no libraries
    esac
    cp -a "$file" "$stripped/"
done
find "$stripped" -type f -exec strip --strip-unneeded {} +
tar -C "$stripped" -cf - . | xz -T0 -6 >"$out/llama.tar.xz"
tar -C "$out/python" -cf - . | xz -T0 -6 >"$out/python.tar.xz"
rm -rf "$out/python"
du -sm "$out"/*
