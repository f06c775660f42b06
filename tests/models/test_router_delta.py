"""build_delta makes a router by which the wanted share of rows skips, in the policy that serves it as well."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vskipper.checkpoint import open_checkpoint, policy_context
from vskipper.errors import InputError
from vskipper.models import seeded
from vskipper.models.calibration import skip_shares
from vskipper.models.delta import build_delta
from vskipper.models.forward import Decoder, lay_out
from vskipper.policies.flexidepth import FlexiDepth
from vskipper.policy import GateMode


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seeded.build("tiny-llama", tmp_path_factory.mktemp("base") / "tiny-llama")


@pytest.mark.parametrize("mode", list(GateMode))
@pytest.mark.parametrize(("seed", "share"), [(0, (0.3, 0.6)), (1, (0.3, 0.6)), (2, (0.4, 0.55)), (3, (0.35, 0.65))])
def test_share_gate_mode_and_layers(
    base: Path, tmp_path: Path, mode: GateMode, seed: int, share: tuple[float, float]
) -> None:
    report = build_delta(base, (1, 2, 4), tmp_path / "d.safetensors", seed=seed, gate_mode=mode, skip_share=share)
    assert share[0] <= report.held_out_share <= share[1]
    assert abs(report.calibrated_share - sum(share) / 2) < 0.03
    checkpoint = open_checkpoint(base, report.path)
    assert (checkpoint.routed_layers, checkpoint.gate_mode) == ((1, 2, 4), mode)
    assert [path.name for path in tmp_path.iterdir()] == ["d.safetensors"]


def test_the_policy_measures_the_same_share(base: Path, tmp_path: Path) -> None:
    report = build_delta(base, (0,), tmp_path / "d.safetensors", seed=4)
    checkpoint = open_checkpoint(base, report.path)
    decoder, prompts = Decoder(checkpoint.spec, checkpoint.tensors), lay_out([list(range(100))])
    policy = FlexiDepth(policy_context(checkpoint, dtype=torch.float32))
    actions = policy.route(0, decoder.input_norm(0, decoder.embed(prompts)), None).actions
    (share,) = skip_shares(decoder, prompts, policy_context(checkpoint, dtype=torch.float32))
    assert share == pytest.approx((actions == 0).float().mean().item())
    assert 0 < share < 1


def test_seeds_differ_and_repeat(base: Path, tmp_path: Path) -> None:
    def enc(seed: int) -> torch.Tensor:
        path = build_delta(base, (2,), tmp_path / "d.safetensors", seed=seed).path
        return open_checkpoint(base, path).router_tensors["model.layers.2.router.router_enc.weight"].clone()

    assert torch.equal(enc(1), enc(1))
    assert not torch.equal(enc(1), enc(2))


def test_a_share_out_of_a_random_routers_reach_is_refused(base: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"skip share .*expected 0\.0 to 0\.05"):
        build_delta(base, (2, 3), tmp_path / "d.safetensors", skip_share=(0.0, 0.05))
    assert not list(tmp_path.iterdir())
