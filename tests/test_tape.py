"""The route tape: layer order, shape, completeness."""

from __future__ import annotations

import pytest
import torch

from vskipper.policy import Route
from vskipper.tape import RouteTape, TapeError


def route(*actions: int, weights: list[float] | None = None) -> Route:
    return Route(
        actions=torch.tensor(actions, dtype=torch.uint8), weights=None if weights is None else torch.tensor(weights)
    )


def test_a_complete_tape_holds_every_layer_in_order() -> None:
    tape = RouteTape((2, 5), 3, "cpu", keep_weights=True)
    tape.write(2, route(3, 0, 1, weights=[0.75, 0.25, 1.0]))
    tape.write(5, route(0, 0, 2, weights=[0.5, 0.0, 1.0]))
    assert tape.finish().tolist() == [[3, 0, 1], [0, 0, 2]]
    assert tape.weights is not None
    assert tape.weights.tolist() == [[0.75, 0.25, 1.0], [0.5, 0.0, 1.0]]


def test_weights_are_none_in_gate_mode_hard() -> None:
    tape = RouteTape((2,), 1, "cpu", keep_weights=True)
    tape.write(2, route(3))
    assert tape.weights is None


@pytest.mark.parametrize("layer", [5, 3])
def test_a_layer_out_of_order_is_refused(layer: int) -> None:
    tape = RouteTape((2, 5), 1, "cpu")
    with pytest.raises(TapeError, match=f"got layer {layer}, expected 2"):
        tape.write(layer, route(3))


def test_a_layer_written_twice_is_refused() -> None:
    tape = RouteTape((2,), 1, "cpu")
    tape.write(2, route(3))
    with pytest.raises(TapeError, match="expected no further layer"):
        tape.write(2, route(3))


@pytest.mark.parametrize("actions", [torch.zeros(2, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)])
def test_actions_of_another_shape_or_dtype_are_refused(actions: torch.Tensor) -> None:
    with pytest.raises(TapeError, match=r"expected torch\.uint8"):
        RouteTape((2,), 1, "cpu").write(2, Route(actions=actions))


def test_an_incomplete_tape_is_refused() -> None:
    tape = RouteTape((2, 5), 1, "cpu")
    tape.write(2, route(3))
    with pytest.raises(TapeError, match=r"missing \(5,\)"):
        tape.finish()
