"""The certificate at its place, or kept at another: a disk that is full by then does not cost the run."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vskipper.errors import InputError

if TYPE_CHECKING:
    from conformance.certificate.folder import Certificate


def write(record: dict[str, Any], folder: Path) -> Certificate:
    """Judge the run and write its certificate. Raises InputError where `folder` does not take it, which names the place
    that did: a temporary folder, else standard output, for the record alone."""
    try:
        return _write(record, folder)
    except (OSError, InputError) as error:
        got = error.got if isinstance(error, InputError) else error.strerror or error
        expected = f"a place to write in; {_kept(record, folder.name)}"
        raise InputError("certificate cannot be written", where=folder, got=got, expected=expected) from error


def _write(record: dict[str, Any], folder: Path) -> Certificate:
    from conformance.certificate.folder import write_certificate
    from conformance.certificate.record import Kill, Manifest, Result

    return write_certificate(
        folder,
        Manifest.from_json(record["manifest"]),
        [Result.from_json(raw) for raw in record["results"]],
        [Kill.from_json(raw) for raw in record["kills"]],
        record["waivers"],
    )


def _kept(record: dict[str, Any], name: str) -> str:
    """Where, in words."""
    place = None
    try:
        place = Path(tempfile.mkdtemp(prefix="vskipper-kept-"))
        _write(record, place / name)
    except (OSError, InputError):
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        print(json.dumps(record))
        return "what the run recorded is on standard output"
    return f"the certificate is kept in {place / name}"
