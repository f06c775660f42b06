"""What comes back from a scheduler: a request's own information, the state behind /server_info, and metrics."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.conditions import either, has, lacks, says, takes
from vskipper.sglang.probe.seam import needed, recorded, shape

BATCH: Final = "srt/managers/schedule_batch.py"
SCHEDULER: Final = "srt/managers/scheduler.py"
STREAMER: Final = "srt/managers/scheduler_components/output_streamer.py"
OUTPUT: Final = "srt/managers/scheduler_output_processor_mixin.py"
TOKENIZER: Final = "srt/managers/tokenizer_manager.py"
MESSAGES: Final = "srt/managers/io_struct.py"
HTTP: Final = "srt/entrypoints/http_server.py"
ENGINE: Final = "srt/entrypoints/engine.py"
COMMON: Final = "srt/utils/common.py"
CONTROL: Final = ("srt/managers/tokenizer_control_mixin.py", "srt/managers/tokenizer_communicator_mixin.py")
COLLECTOR: Final = ("srt/observability/metrics_collector.py", "srt/metrics/collector.py")

_ON_REQUEST: Final = has(BATCH, "Req.__init__", "customized_info")
_PROMETHEUS: Final = "from prometheus_client import"
_SLICE: Final = "[send_token_offset:len(output_ids_)]"
_STREAMED: Final = "_GenerationStreamAccumulator.accept"
_MIXED_IN: Final = "SchedulerOutputProcessorMixin.stream_output_generation"
_RECEIVED: Final = "TokenizerManager._handle_batch_output"
_ACCUMULATED: Final = either(
    says(TOKENIZER, "TokenizerManager._accumulate_request_meta_info", "accumulated.extend(values)"),
    says(TOKENIZER, _RECEIVED, "state.customized_info_accumulated[k].extend(v[i])"),
)
_ANSWERS: Final = (
    takes(SCHEDULER, "Scheduler.get_internal_state", "self", "recv_req"),
    says(SCHEDULER, "Scheduler.init_request_dispatcher", "(GetInternalStateReq, self.get_internal_state)"),
    has(MESSAGES, "GetInternalStateReqOutput", "internal_state"),
    either(
        says(CONTROL[0], "TokenizerControlMixin.get_internal_state", "[res.internal_state for res in responses]"),
        says(CONTROL[1], "TokenizerCommunicatorMixin.get_internal_state", "[res.internal_state for res in responses]"),
    ),
    says(HTTP, "server_info", "'internal_states': internal_states"),
)

SEAMS: Final = (
    needed(
        "request-information",
        "puts a request's plan and skipped share into its meta_info",
        shape(
            "slice-or-request",
            has(BATCH, "Req.__init__", "customized_info"),
            says(STREAMER, _STREAMED, "req_values" + _SLICE, "self.is_request_level_customized_info_key(key)"),
            _ACCUMULATED,
        ),
        shape(
            "slice-accumulated",
            has(BATCH, "Req.__init__", "customized_info"),
            either(says(STREAMER, _STREAMED, "req_values" + _SLICE), says(STREAMER, _STREAMED, "append(v" + _SLICE)),
            lacks(STREAMER, mention="is_request_level_customized_info_key"),
            _ACCUMULATED,
        ),
        shape(
            "slice-replaced",
            has(BATCH, "Req.__init__", "customized_info"),
            says(OUTPUT, _MIXED_IN, "customized_info[k].append(v" + _SLICE),
            lacks(STREAMER),
            says(TOKENIZER, _RECEIVED, "meta_info[k] = v[i]"),
        ),
        shape(
            "slice-to-end", says(OUTPUT, _MIXED_IN, "customized_info[k].append(v[send_token_offset:])"), served=False
        ),
        shape("whole-list", says(OUTPUT, _MIXED_IN, "customized_info[k].append(v)"), served=False),
        shape("none", lacks(BATCH, mention="customized_info"), served=False),
    ),
    needed(
        "internal-state",
        "proves in /server_info that it runs in the scheduler",
        shape("scheduler-answers", *_ANSWERS),
    ),
    needed(
        "metrics-folder",
        "counts in the registry that the engine serves",
        shape(
            "multiprocess",
            takes(COMMON, "set_prometheus_multiproc_dir"),
            says(COMMON, "set_prometheus_multiproc_dir", "os.environ['PROMETHEUS_MULTIPROC_DIR']"),
            says(COMMON, "add_prometheus_middleware", "MultiProcessCollector(registry)"),
            says(ENGINE, "_set_envs_and_config", "set_prometheus_multiproc_dir()"),
        ),
    ),
    recorded(
        "metrics-collector",
        "counts beside this one",
        shape("observability", says(COLLECTOR[0], "SchedulerMetricsCollector.__init__", _PROMETHEUS)),
        shape("metrics", says(COLLECTOR[1], "SchedulerMetricsCollector.__init__", _PROMETHEUS), lacks(COLLECTOR[0])),
    ),
)
