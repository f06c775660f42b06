"""Stands in for the suite's process: replays the made-up run of the tests, or misbehaves as the policy's name says."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from conformance.certificate.record import Status
from conformance.request import CertifyRequest
from tests.conformance.sample import Run, failed, good_run


def send(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def outcome(request: CertifyRequest) -> Run:
    run = good_run()
    run = replace(run, manifest=replace(run.manifest, policy=replace(run.manifest.policy, spec=request.policy)))
    if request.policy == "leaks":
        return run.with_result("kv.footprint", failed).with_result("kv.scale", failed)
    if request.policy == "broken":
        blocked = [r if r.clause == "POL-1" else replace(r, status=Status.BLOCKED, examples=0) for r in run.results]
        return replace(run, results=tuple(blocked), kills=()).with_result("policy.declared", failed)
    if not request.faults:
        return replace(run, kills=())
    return run


def main(request: CertifyRequest) -> int:
    if request.policy == "refused":
        fields = {"what": "unknown policy", "where": "policy name", "got": "'refused'", "expected": "random-skip"}
        send("error", **fields, text="not used", traceback=False)
        return 2
    run = outcome(request)
    send("plan", total=len(run.results) + len(run.kills))
    print("a line that is no event")
    print('{"a JSON line": "that is no event"}')
    print("[1, 2]")
    for result in run.results:
        item = f"{result.property}@torch/[tiny]"
        send("start", item=item)
        send("item", item=item)
    if request.policy == "dies":
        print("Segmentation fault (not really)", file=sys.stderr)
        return 139
    if request.policy == "hangs":
        send("start", item="last@torch/tiny")
        Path("hanging").write_text(str(os.getpid()))
        time.sleep(120)
    if request.policy == "walled":
        Path("cert").write_text("not a folder any more")
    for result in run.results:
        send("result", result=result.to_json())
    for kill in run.kills:
        send("kill", kill=kill.to_json())
    send("done", manifest=run.manifest.to_json(), waivers=run.waivers)
    Path("seen.json").write_text(json.dumps({"request": json.loads(request.to_json()), "path": sys.path}))
    return 1


if __name__ == "__main__":
    sys.exit(main(CertifyRequest.from_json(Path(sys.argv[1]).read_text())))
