"""FlexiDepth's own model types, as configurations that read like those of their bases: no code of a checkpoint runs."""

from __future__ import annotations

from typing import Final

# model type: the base's
TYPES: Final = {"ddllama": "llama", "ddqwen3": "qwen3"}


def install() -> None:
    """Have transformers read a config.json of these types; a second call changes nothing."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for name, base in TYPES.items():
        if name not in CONFIG_MAPPING:
            known = CONFIG_MAPPING[base]
            AutoConfig.register(name, type(f"DD{known.__name__}", (known,), {"model_type": name}))
