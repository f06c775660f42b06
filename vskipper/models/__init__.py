"""Models by name or folder: smollm2 and the random ones are built in the cache when first asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vskipper.checkpoint.config import ModelSpec
from vskipper.errors import InputError
from vskipper.models import seeded, smollm2
from vskipper.models.store import cache_folder

KNOWN = (smollm2.NAME, *seeded.SEEDED_MODELS)


def resolve(name_or_dir: str | Path) -> Path:
    """The Hugging Face directory of a known name, or the directory itself; raises InputError that lists the names."""
    name = str(name_or_dir)
    if name in KNOWN:
        return _built(name, cache_folder())
    directory = Path(name_or_dir)
    if not directory.is_dir():
        expected = f"one of {', '.join(KNOWN)}, or a model folder"
        got = f"{name!r}, which is a file" if directory.exists() else repr(name)
        raise InputError("no such model", where="model", got=got, expected=expected)
    return directory


def default_delta(name_or_dir: str | Path) -> Path | None:
    """The FlexiDepth delta that lies beside the model's own weights, None where none does."""
    path = resolve(name_or_dir) / seeded.DELTA
    return path if path.exists() else None


def default_routed_layers(name: str, spec: ModelSpec) -> tuple[int, ...]:
    """Routed layers of a base without a router: those of the known models, else the upper half (as FlexiDepth's)."""
    if name == smollm2.NAME:
        return smollm2.ROUTED_LAYERS
    if name in seeded.SEEDED_MODELS:
        return seeded.ROUTED_LAYERS
    return tuple(range(spec.num_hidden_layers // 2, spec.num_hidden_layers))


# a whole model is read to see that it is whole: once a process is enough
@cache
def _built(name: str, folder: Path) -> Path:
    if name == smollm2.NAME:
        return smollm2.build(folder)
    (kind,) = (known for known in seeded.SEEDED_MODELS if known == name)
    return seeded.build(kind, folder / name, owned=True)
