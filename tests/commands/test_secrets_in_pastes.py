"""Secrets in every pasted form, through every format and the saved file."""

from pathlib import Path

import pytest

from unslow.__main__ import main
from unslow.commands._formats import FORMATS

PASTE = """llama-server -m a.gguf -ngl 10 --api-key "c4nary00 with c4nary01" --model-url https://u:c4nary02@hub/x.gguf
load_tensors: offloaded 10/33 layers to GPU
OLLAMA_HOST=http://bob:c4nary03@10.0.0.5:11434
Environment="OLLAMA_ORIGINS=https://u:c4nary04@x"
time=2025-09-10T10:00:00.000+02:00 level=INFO source=routes.go:1332 msg="server config" env="map[HTTPS_PROXY:http://joe:\
c4nary05@proxy:3128 OLLAMA_HOST:http://k:c4nary06@0.0.0.0:11434 OLLAMA_NUM_PARALLEL:4 OLLAMA_API_KEY:c4nary07]"
vllm serve m --api-key c4nary08 c4nary09 --enforce-eager
curl -u me:c4nary10 http://localhost:11434 -H "api-key: c4nary11" -H 'Authorization: c4nary12' gives 3 tok/s
wget --password=c4nary13 http://box/model.gguf is slow
koboldcpp --password c4nary14 --adminpassword c4nary15 model.gguf --gpulayers 10
my password is c4nary16 and the gpu RTX 3090 throttles at 95 C with 3 tok/s, was 30 tok/s; token c4nary17
setx OLLAMA_API_KEY c4nary18
Namespace(api_key=['c4nary19', 'c4nary20'], hf_token=c4nary21, enforce_eager=True)
"""


@pytest.mark.parametrize("form", FORMATS)
def test_pasted_secrets_are_never_shown(form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paste, kept = tmp_path / "paste.txt", tmp_path / "kept.json"
    paste.write_text(PASTE.replace("\\\n", ""))
    assert main(["triage", str(paste), "--format", form, "--all", "--save", str(kept)]) in (0, 1, 3)
    out = capsys.readouterr()
    assert "3090" in out.out, "the rest is still understood"
    assert "c4nary" not in out.out + out.err + kept.read_text()
    assert main(["diagnose", str(kept), "--format", form, "--all"]) in (0, 1, 3)
    assert "c4nary" not in capsys.readouterr().out
