import json
import shutil

from stored import checkpoint, extracted

from unslow.look.models.stores import Surroundings, lm_studio, with_header
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


def found(place):
    return {m.name: with_header(SYSTEM, m) for m in lm_studio.find(SYSTEM, str(place)).models}


def test_lm_studio_models_are_named_by_publisher_repository_and_quant(tmp_path):
    ggufs, models = extracted(tmp_path) / "ggufs", tmp_path / "models"
    repository = models / "lmstudio-community" / "tiny-GGUF"
    repository.mkdir(parents=True)
    shutil.copy(ggufs / "embed.gguf", repository / "tiny-Q4_K_M.gguf")
    shutil.copy(ggufs / "embed.gguf", repository / "tiny-UD-Q8_0.gguf")
    shutil.copy(ggufs / "mmproj-model-f16.gguf", repository)
    checkpoint("mlx_4bit", models / "mlx-community" / "tiny-4bit")
    seen = found(models)
    assert set(seen) == {
        "lmstudio-community/tiny-GGUF:Q4_K_M",
        "lmstudio-community/tiny-GGUF:Q8_0",
        "lmstudio-community/tiny-GGUF/mmproj-model-f16",
        "mlx-community/tiny-4bit",
    }
    assert seen["mlx-community/tiny-4bit"].quant == "MLX 4-bit"
    assert seen["mlx-community/tiny-4bit"].parameters == 106_816
    assert seen["lmstudio-community/tiny-GGUF:Q8_0"].projectors == (str(repository / "mmproj-model-f16.gguf"),)


def test_two_lm_studio_files_of_one_quant_keep_their_full_names(tmp_path):
    ggufs, repository = extracted(tmp_path) / "ggufs", tmp_path / "models" / "pub" / "repo"
    repository.mkdir(parents=True)
    for name in ("one-Q4_0", "two-Q4_0", "plain"):
        shutil.copy(ggufs / "embed.gguf", repository / f"{name}.gguf")
    assert set(found(tmp_path / "models")) == {"pub/repo/one-Q4_0", "pub/repo/two-Q4_0", "pub/repo/plain"}


def test_the_lm_studio_downloads_folder_comes_from_its_settings(tmp_path):
    (tmp_path / ".lmstudio").mkdir()
    (tmp_path / ".lmstudio" / "settings.json").write_text(json.dumps({"downloadsFolder": "/mnt/models"}))
    places = lm_studio.places(SYSTEM, Surroundings(str(tmp_path)))
    assert places == ["/mnt/models", f"{tmp_path}/.cache/lm-studio/models"]


def test_the_lm_studio_home_pointer_is_followed(tmp_path):
    (tmp_path / ".lmstudio-home-pointer").write_text("/data/lms\n")
    assert lm_studio.places(SYSTEM, Surroundings(str(tmp_path)))[0] == "/data/lms/models"
