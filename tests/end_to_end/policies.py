"""A policy's source and seven ways to break it, each by one textual change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def readme_policy() -> str:
    """The policy that the README shows, character for character."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    (policy,) = (block for block in blocks if "class SkipPeriodic" in block)
    return str(policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """old: text of the README's policy that is replaced by new. hook: the one at fault. line: text of the line that the
    message names. code: exit code. words: further words of the message."""

    old: str
    new: str
    hook: str
    line: str
    code: int
    words: tuple[str, ...]


ROUTE = "        return Route(actions=actions)\n"
BROKEN: Mapping[str, Breakage] = {
    "wrong_shape": Breakage(
        old=ROUTE,
        new="        return Route(actions=actions[:, None])\n",
        hook="route",
        line="def route",
        code=1,
        words=("reason=wrong_actions", "got=", "expected="),
    ),
    "wrong_dtype": Breakage(
        old=ROUTE,
        new="        return Route(actions=actions.long())\n",
        hook="route",
        line="def route",
        code=1,
        words=("reason=wrong_actions", "int64", "uint8"),
    ),
    "host_synchronisation": Breakage(
        old=ROUTE,
        new="        if state.any().item():\n            return Route(actions=actions)\n" + ROUTE,
        hook="route",
        line="state.any().item()",
        code=1,
        words=("reason=host_synchronisation", "got=", "expected="),
    ),
    "undeclared_action": Breakage(
        old="int(Action.PROJECT_ONLY)",
        new="int(Action.SKIP_MLP)",
        hook="route",
        line="def route",
        code=1,
        words=("reason=undeclared_action", "SKIP_MLP", "PROJECT_ONLY"),
    ),
    "reads_neighbours": Breakage(
        old="        return batch.positions % self.period == 0\n",
        new="        return batch.positions > batch.positions.float().mean()\n",
        hook="route",
        line="def route",
        code=1,
        words=("reason=depends_on_batch", "capability=batch_invariant", "got=", "expected="),
    ),
    "projects_by_neighbours": Breakage(
        old="            prefix_determined=True,\n        )\n",
        new="            prefix_determined=True,\n            needs_projector=True,\n        )\n"
        "\n    def project(self, layer: int, y: Tensor, state: Tensor) -> Tensor:\n"
        "        return 0.1 * (y - y.mean(0))\n",
        hook="project",
        line="def project",
        code=1,
        words=("reason=projector_depends_on_batch", "row="),
    ),
    "missing_method": Breakage(
        old="    def begin(",
        new="    def start(",
        hook="begin",
        line="class SkipPeriodic",
        code=2,
        words=("got", "expected"),
    ),
}


def broken_policy(name: str) -> str:
    """The README's policy with one breakage."""
    source, breakage = readme_policy(), BROKEN[name]
    assert breakage.old in source
    return source.replace(breakage.old, breakage.new, 1)


def line_number(source: str, text: str) -> int:
    """The first line of source that contains text, from 1."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)
