"""POL-2: no hook waits for the device, keeps state of its own, or changes what it shares with others."""

from __future__ import annotations

from properties.case import RowsCase
from properties.core.policy_cases import rows_cases
from properties.core.policy_hooks import violation_of_policy
from properties.core.policy_rows import batch_of_rows, streams
from properties.property import Property, Subject
from vskipper.errors import PolicyError
from vskipper.validate.device import find_python_state, find_synchronisation
from vskipper.validate.shared import find_process_state, find_written_tensors


def check_on_device(subject: Subject, case: RowsCase) -> None:
    """A pass of every hook, watched for anything that makes the host wait; and more of the same pass, for state that
    changes: the policy's, the process's, and the tensors' that the policy was built with."""
    policy = subject.make_policy(subject.model.dtype)
    rows, layers, name = range(case.rows), subject.model.routed_layers, subject.policy_name
    batch = batch_of_rows(subject, case, rows, case.padding)
    x = streams(subject, case, layers[0], rows, case.padding)
    try:
        # first, since it takes back what is written
        find_written_tensors(policy, batch, x, layers, subject.given, name)
        find_synchronisation(policy, batch, x, layers, name)
        find_python_state(policy, batch, x, layers, name)
        find_process_state(policy, batch, x, layers, name)
    except PolicyError as error:
        raise violation_of_policy(error) from error
    subject.seen["watched_passes"] += 1


POLICY_ON_DEVICE = Property(
    id="policy.on_device",
    clause="POL-2",
    title="no hook makes the host wait or changes state: Python's, the process's, or tensors that it was given",
    cases=rows_cases,
    check=check_on_device,
    counters=("watched_passes",),
    examples=10,
    scope="policy",
)
