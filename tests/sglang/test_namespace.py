"""Keys of the prefix cache: equal only where everything that decides what is written is equal (CACHE-1, CACHE-3)."""

from __future__ import annotations

from itertools import combinations

import torch
from hypothesis import given
from hypothesis import strategies as st

from vskipper.sglang.namespace import PREFIX, dense_key, digest, is_private, private_key, routed_key

DIGESTS = ("0" * 32, "1" * 32)
# users' keys that try to read as ours
HOSTILE = st.one_of(
    st.none(),
    st.text(max_size=6),
    st.sampled_from([f"{PREFIX}dense", f"{PREFIX}routed:{DIGESTS[0]}", f"{PREFIX}private:1", ":user:", ":user:x"]),
    st.builds(
        lambda a, b: f"{PREFIX}{a}:user:{b}", st.sampled_from(["dense", f"routed:{DIGESTS[0]}"]), st.text(max_size=3)
    ),
)


@given(st.lists(HOSTILE, min_size=1, max_size=5, unique=True))
def test_no_two_keys_collide(users: list[str | None]) -> None:
    keys = [
        key
        for user in users
        for key in (
            dense_key(user),
            *(routed_key(user, routes) for routes in DIGESTS),
            *(private_key(user, name) for name in ("1", "11")),
        )
    ]
    assert len(set(keys)) == len(keys)


@given(HOSTILE)
def test_a_dense_request_keeps_its_user_s_key(user: str | None) -> None:
    if user is None or not user.startswith(PREFIX):
        assert dense_key(user) == user


def test_private_keys_are_known_as_such() -> None:
    assert is_private(private_key(None, "a.1")) and is_private(private_key("x", "a.1"))
    assert not any(map(is_private, (None, "x", routed_key("x", DIGESTS[0]), dense_key(private_key("x", "1")))))


def test_a_digest_follows_every_part() -> None:
    tensors = {"a": torch.ones(2), "b": torch.ones(2)}
    identity = {"policy": "p", "settings": {"r": 0.5}}
    variants = [
        digest(identity, tensors),
        digest(identity | {"policy": "q"}, tensors),
        digest(identity | {"settings": {"r": 0.25}}, tensors),
        digest(identity, tensors | {"b": torch.tensor([1.0, 2.0])}),
        digest(identity, {"a": torch.ones(2), "c": torch.ones(2)}),
        digest(identity, {"a": torch.ones(2)}),
        digest(identity, tensors | {"b": torch.ones(2, 1)}),
        digest(identity, tensors | {"b": torch.ones(2, dtype=torch.float64)}),
        digest(identity, {"a": torch.ones(2), "b": torch.zeros(2)}),
    ]
    assert all(one != two for one, two in combinations(variants, 2))
    assert variants[0] == digest(dict(reversed(identity.items())), dict(reversed(tensors.items())))
