"""Load a ghost with `no_alloc` and bring back llama.cpp's log. To be run in a child process."""

from __future__ import annotations

from llama_cpp import llama_cpp as lib

from localspec.llama import library
from localspec.llama.context import FLASH_ATTENTION, KV_TYPES
from localspec.llama.log import NativeLog
from localspec.llama.offload import set_offload
from localspec.memory.probe import ProbeLog, ProbeRequest

_KEEP = 50_000
"""A log line for each layer of each cache, with room for the largest models."""


def run_probe(request: ProbeRequest) -> ProbeLog:
    """Plan the load of `request.path` without allocating it.

    The context is the engine's (`localspec.llama.context.Context`): unified cache, sliding windows
    kept small. Raises EngineError for a library that is not known.
    """
    library.start()
    log = NativeLog(keep=_KEEP)
    params = lib.llama_model_default_params()
    params.no_alloc = True
    params.load_mtp = request.nextn
    params.load_mode = lib.LLAMA_LOAD_MODE_NONE
    kept = set_offload(
        params,
        gpu_layers=request.gpu_layers,
        tensor_split=request.tensor_split,
        experts_on_cpu=request.experts_on_cpu,
    )
    model = lib.llama_model_load_from_file(str(request.path).encode(), params)
    del kept
    if not model:
        return ProbeLog(tuple(log.lines()), 0, False)
    size = int(lib.llama_model_size(model))
    context = lib.llama_init_from_model(model, _context_params(request))
    ok = bool(context)
    if ok:
        lib.llama_free(context)
    lib.llama_model_free(model)
    return ProbeLog(tuple(log.lines()), size, ok)


def _context_params(request: ProbeRequest) -> lib.llama_context_params:
    params = lib.llama_context_default_params()
    params.n_ctx = request.n_ctx
    params.n_batch = min(request.n_batch, request.n_ctx)
    params.n_ubatch = min(request.n_ubatch, params.n_batch)
    params.n_seq_max = request.n_seq
    params.n_rs_seq = request.rollback_rows
    params.n_outputs_max = min(request.n_outputs, params.n_batch)
    params.type_k = params.type_v = KV_TYPES[request.kv_type]
    params.flash_attn_type = FLASH_ATTENTION["on" if request.flash_attn else "off"]
    params.ctx_type = lib.LLAMA_CONTEXT_TYPE_MTP if request.nextn else params.ctx_type
    params.swa_full = False
    params.kv_unified = True
    params.no_perf = True
    return params
