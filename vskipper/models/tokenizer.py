"""The tokenizer in a GGUF file, as tokenizer.json and tokenizer_config.json: byte-level BPE, digits one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vskipper.errors import InputError
from vskipper.models.gguf_file import GGUFFile

_CONTROL = 3


def write_tokenizer(source: GGUFFile, folder: Path) -> Any:
    """Write both files into `folder`; returns the `tokenizers.Tokenizer`. Raises InputError for another kind of BPE."""
    kind = (source.field("tokenizer.ggml.model"), source.field("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise InputError("unknown tokenizer", where="GGUF tokenizer", got=kind, expected=("gpt2", "smollm"))
    tokens = source.field("tokenizer.ggml.tokens")
    types = source.field("tokenizer.ggml.token_type")
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    tokenizer = _byte_level_bpe(tokens, source.field("tokenizer.ggml.merges"), special)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[source.bos],
        "eos_token": tokens[source.eos],
        "pad_token": tokens[source.field("tokenizer.ggml.padding_token_id")],
        "unk_token": tokens[source.field("tokenizer.ggml.unknown_token_id")],
        "additional_special_tokens": special,
        "model_max_length": source.field("llama.context_length"),
        "clean_up_tokenization_spaces": False,
        "chat_template": source.field("tokenizer.chat_template"),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n")
    return tokenizer


def _byte_level_bpe(tokens: list[str], merges: list[str], special: list[str]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer
