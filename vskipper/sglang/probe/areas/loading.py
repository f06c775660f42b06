"""How vSkipper gets into SGLang's processes, and how it reads and checks the arguments that they were given."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.conditions import declares, either, has, lacks, mentions, says, takes
from vskipper.sglang.probe.seam import needed, recorded, shape

PLUGINS: Final = "srt/plugins/__init__.py"
REGISTRY: Final = "srt/models/registry.py"
ENVIRON: Final = "srt/environ.py"
SERVER_ARGS: Final = "srt/server_args.py"
CONTEXT: Final = "srt/runtime_context.py"
SCHEDULER: Final = "srt/managers/scheduler.py"
ENGINE: Final = "srt/entrypoints/engine.py"
OVERRIDES: Final = "srt/arg_groups/overrides.py"
FIELDS: Final = "srt/arg_groups/fields/"

# what vSkipper refuses and every release so far can be asked for: one that is gone may have another name, and pass
REFUSED: Final = {
    "parallel.py": ("pp_size", "enable_dp_attention", "ep_size", "enable_attn_tp_input_scattered"),
    "lora.py": ("enable_lora", "lora_paths"),
    "spec.py": ("speculative_algorithm",),
    "disagg.py": ("disaggregation_mode", "enable_pdmux", "encoder_only", "language_only"),
    "memory.py": ("hicache_storage_backend", "enable_lmcache"),
    "model.py": ("quantization", "load_format", "modelopt_quant", "quantize_and_serve", "model_impl", "is_embedding"),
    "exec_.py": (
        "enable_torch_compile",
        "enable_two_batch_overlap",
        "enable_single_batch_overlap",
        "enable_deterministic_inference",
        "moe_a2a_backend",
        "enable_eplb",
        "dllm_algorithm",
        "cpu_offload_gb",
        "offload_group_size",
    ),
}
READ: Final = {
    "model.py": ("model_path", "json_model_override_args"),
    "serving.py": ("served_model_name",),
    "observability.py": ("enable_metrics",),
}

_PACKAGE_SWITCH: Final = mentions(ENVIRON, "SGLANG_EXTERNAL_MODEL_PACKAGE = EnvStr(")
_ENTRY_CLASS: Final = says(REGISTRY, "import_model_classes", "'EntryClass'")

SEAMS: Final = (
    needed(
        "plugin-group",
        "is loaded by every process through its entry point",
        shape(
            "entry-points",
            takes(PLUGINS, "load_plugins"),
            mentions(PLUGINS, '"sglang.srt.plugins"'),
            says(SCHEDULER, "run_scheduler_process", "load_plugins()"),
            says(ENGINE, "Engine.__init__", "load_plugins()"),
            says(ENGINE, "Engine._launch_subprocesses", "load_plugins()"),
            mentions("launch_server.py", "load_plugins()"),
            mentions("cli/serve.py", "load_plugins()"),
        ),
        shape("environment-only", lacks(PLUGINS), _PACKAGE_SWITCH, served=False),
    ),
    needed(
        "model-package",
        "has its model classes take the engine's place",
        shape(
            "instead-of-engine",
            mentions(REGISTRY, "ModelRegistry.models.update(import_model_classes(external_pkg))"),
            _PACKAGE_SWITCH,
            _ENTRY_CLASS,
        ),
        shape(
            "over-engine",
            mentions(REGISTRY, "ModelRegistry.register(external_pkg, overwrite=True)"),
            takes(REGISTRY, "_ModelRegistry.register", "self", "package_name", "overwrite"),
            _PACKAGE_SWITCH,
            _ENTRY_CLASS,
        ),
    ),
    needed(
        "arguments-resolution",
        "checks the arguments once they are resolved, in every process that starts an engine",
        shape(
            "resolve-once",
            takes(SERVER_ARGS, "ServerArgs.resolve_once", "self"),
            says(SERVER_ARGS, "ServerArgs.resolve_once", "'_resolution_finished'"),
            mentions(OVERRIDES, "resolving_view"),
        ),
        shape(
            "on-construction",
            takes(SERVER_ARGS, "ServerArgs.__post_init__", "self"),
            lacks(SERVER_ARGS, name="ServerArgs.resolve_once"),
            lacks(OVERRIDES, mention="resolving_view"),
            either(
                says(SERVER_ARGS, "ServerArgs.__post_init__", "self._run_resolution_pipeline()"),
                says(SERVER_ARGS, "ServerArgs.__post_init__", "self._handle_"),
            ),
        ),
    ),
    needed(
        "arguments-read",
        "reads the model's path and overrides, its served name, and whether there are metrics",
        shape("by-namespace", *[declares(FIELDS + file, *names) for file, names in READ.items()]),
        shape("one-class", *[declares(SERVER_ARGS, *names) for names in READ.values()]),
    ),
    needed(
        "arguments-refused",
        "refuses what it does not serve, by the argument's name",
        shape("by-namespace", *[declares(FIELDS + file, *names) for file, names in REFUSED.items()]),
        shape("one-class", *[declares(SERVER_ARGS, *names) for names in REFUSED.values()]),
    ),
    needed(
        "current-arguments",
        "asks for the arguments inside a scheduler",
        shape("context", takes(CONTEXT, "get_server_args")),
        shape(
            "module",
            takes(SERVER_ARGS, "get_global_server_args"),
            says(SERVER_ARGS, "get_global_server_args", "return _global_server_args"),
            lacks(CONTEXT, name="get_server_args"),
        ),
    ),
    needed(
        "environment-switches",
        "reads the switches that have no argument",
        shape("envs", mentions(ENVIRON, "\nenvs = Envs()"), takes(ENVIRON, "EnvField.get", "self")),
    ),
    recorded(
        "engine-in-process",
        "drives a model runner without a server",
        shape("benchmark", mentions("benchmark/one_batch.py", "ModelRunner(")),
        shape("bench-one-batch", mentions("bench_one_batch.py", "ModelRunner(")),
    ),
    recorded(
        "rpc",
        "could ask a method of every scheduler",
        shape(
            "collective",
            has(SCHEDULER, "Scheduler", "handle_rpc_request"),
            has(ENGINE, "Engine", "collective_rpc"),
        ),
    ),
)
