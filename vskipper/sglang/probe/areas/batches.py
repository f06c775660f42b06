"""Requests from admission to retraction, and the batches that the scheduler makes of them."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.conditions import before, has, lacks, mentions, says, takes, takes_attributes
from vskipper.sglang.probe.seam import needed, recorded, shape

BATCH: Final = "srt/managers/schedule_batch.py"
SCHEDULER: Final = "srt/managers/scheduler.py"
RESULT: Final = "srt/managers/utils.py"
FORWARD: Final = "srt/model_executor/forward_batch_info.py"
RUNNER: Final = "srt/model_executor/model_runner.py"
EAGER: Final = "srt/model_executor/runner/eager_runner.py"
BUFFERS: Final = "srt/model_executor/cuda_graph_buffer_registry.py"

_REQUEST: Final = ("self", "rid", "origin_input_text", "origin_input_ids", "sampling_params")
_ON_REQUEST: Final = ("rid", "origin_input_ids", "output_ids", "extra_key")
_LENGTHS: Final = ("seq_lens", "seq_lens_cpu", "extend_seq_lens_cpu", "extend_prefix_lens_cpu")
_ROWS: Final = ("forward_mode", "input_ids", "positions", "out_cache_loc", "req_pool_indices")
_REPLACED: Final = says(BUFFERS, "CudaGraphBufferRegistry.extract_buffer", "dataclasses.replace(forward_batch_template")

SEAMS: Final = (
    needed(
        "request-construction",
        "fixes a request's plan, and files it under its plan's key, as it is made",
        shape(
            "key-and-salt",
            takes(BATCH, "Req.__init__", *_REQUEST, accepts=("extra_key", "cache_salt")),
            has(BATCH, "Req.__init__", *_ON_REQUEST, "cache_salt"),
            takes_attributes(BATCH, "Req"),
        ),
        shape(
            "key",
            takes(BATCH, "Req.__init__", *_REQUEST, accepts=("extra_key",), without=("cache_salt",)),
            has(BATCH, "Req.__init__", *_ON_REQUEST),
            takes_attributes(BATCH, "Req"),
        ),
    ),
    needed(
        "request-retraction",
        "hears that a request has lost its KV",
        shape(
            "reset-for-retract",
            takes(BATCH, "Req.reset_for_retract", "self"),
            has(BATCH, "Req.reset_for_retract", "is_retracted"),
            mentions(BATCH, ".reset_for_retract()"),
        ),
    ),
    needed(
        "request-abort",
        "ends a request with a policy's error",
        shape(
            "to-finish",
            has(BATCH, "Req.__init__", "to_finish"),
            takes(BATCH, "FINISH_ABORT.__init__", "self", "message", "status_code", "err_type"),
            takes(BATCH, "Req.finished", "self"),
        ),
    ),
    needed("batch-requests", "reads a batch's requests", shape("reqs", has(BATCH, "ScheduleBatch", "reqs"))),
    needed(
        "batch-run",
        "publishes the plan of a batch while it runs, and marks its result",
        shape(
            "run-batch",
            takes(SCHEDULER, "Scheduler.run_batch", "self", "batch"),
            says(SCHEDULER, "Scheduler.event_loop_normal", "self.run_batch(batch)"),
            says(SCHEDULER, "Scheduler.event_loop_overlap", "self.run_batch(batch)"),
            takes_attributes(RESULT, "GenerationBatchResult"),
        ),
    ),
    needed(
        "batch-results",
        "counts what ran before the results are handled",
        shape(
            "process-batch-result",
            takes(SCHEDULER, "Scheduler.process_batch_result", "self", "batch", "result"),
            says(SCHEDULER, "Scheduler.event_loop_normal", "self.process_batch_result(batch, result)"),
            says(SCHEDULER, "Scheduler.event_loop_overlap", "self.process_batch_result("),
        ),
    ),
    needed(
        "scheduler-order",
        "patches the scheduler while the model is built, before it binds its methods",
        shape(
            "worker-first",
            before(SCHEDULER, "Scheduler.__init__", "self.init_model_worker()", "self.init_request_dispatcher()"),
        ),
    ),
    needed(
        "pass-rows",
        "tells which rows of a pass are whose, without waiting for the device",
        shape(
            "lengths-on-host",
            has(FORWARD, "ForwardBatch", *_ROWS, *_LENGTHS),
            takes(FORWARD, "ForwardMode.is_decode", "self"),
            says(FORWARD, "ForwardMode.is_decode", "self == ForwardMode.DECODE"),
        ),
    ),
    recorded(
        "pass-construction",
        "could plan a pass where the engine builds its batch",
        shape(
            "batch-runner-options",
            takes(
                FORWARD,
                "ForwardBatch.init_new",
                *("cls", "batch", "model_runner"),
                accepts=("capture_hidden_mode", "return_hidden_states_before_norm"),
            ),
        ),
        shape("batch-runner", takes(FORWARD, "ForwardBatch.init_new", "cls", "batch", "model_runner")),
    ),
    recorded(
        "pass-call",
        "could publish a plan around the model runner",
        shape("forward-batch", takes(RUNNER, "ModelRunner.forward", "self", "forward_batch")),
    ),
    recorded(
        "pass-attributes",
        "cannot hand a plan to the model on the engine's batch where these are lost",
        shape("lost-in-eager-runner", _REPLACED, mentions(EAGER, "registry.extract_buffer(")),
        shape("lost-in-model-runner", _REPLACED, mentions(RUNNER, "registry.extract_buffer(")),
        shape("kept", lacks(BUFFERS)),
    ),
    recorded(
        "mixed-batches",
        "sees a batch of prefill and decode as one of these",
        shape("as-extend", mentions(EAGER, "forward_batch.forward_mode = ForwardMode.EXTEND")),
        shape("as-mixed", lacks(EAGER, mention="ForwardMode.EXTEND"), takes(FORWARD, "ForwardMode.is_mixed", "self")),
    ),
    recorded(
        "request-queue",
        "could file a request as it joins the queue",
        shape("add-request", takes(SCHEDULER, "Scheduler._add_request_to_queue", "self", "req")),
    ),
)
