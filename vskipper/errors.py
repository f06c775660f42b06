"""Errors that a person can act on: every one says what, where, got and expected (clause IN-1)."""

from __future__ import annotations


class InputError(ValueError):
    """Something given from outside cannot be used. The command line turns it into one line and exit code 2."""

    def __init__(self, what: str, *, where: object, got: object, expected: object) -> None:
        self.what = what
        self.where = str(where)
        self.got = str(got)
        self.expected = str(expected)
        super().__init__(f"{what} [{self.where}]: got {self.got}, expected {self.expected}")


class PolicyError(InputError):
    """A skip policy broke its contract; names the policy, the hook and the line that defines it (clause POL-1)."""

    def __init__(self, what: str, *, policy: str, hook: str, location: str, got: object, expected: object) -> None:
        self.policy = policy
        self.hook = hook
        self.location = location
        # what a policy raises may span lines
        said = " ".join(str(got).split()) if isinstance(got, (str, Exception)) else got
        super().__init__(f"policy {policy}, hook {hook}: {what}", where=location, got=said, expected=expected)
