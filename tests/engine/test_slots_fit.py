"""What slots take of memory is what was planned for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.ggufmeta.header import read_header
from localspec.llama.cancel import CancelFlag
from localspec.llama.context import Context, ContextOptions
from localspec.llama.log import NativeLog
from localspec.llama.model import LoadOptions as ModelOptions
from localspec.llama.model import Model
from localspec.memory.cache import kv_bytes, recurrent_bytes
from localspec.memory.placement import place
from localspec.memory.probe import parse_log
from localspec.memory.request import LoadOptions, make_loads
from tests.support.tiny_gguf import FAMILIES, write_tiny

pytestmark = pytest.mark.engine

ROUNDING = 1 << 15
"""llama.cpp's log tells hundredths of a MiB."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_slot_has_the_whole_context_and_the_plan_counts_it(
    family: str, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "a.gguf", family)
    (load,) = make_loads(read_header(path), None, LoadOptions(n_ctx=512, n_seq=4, draft_max=4))
    log = NativeLog(keep=20_000)
    model = Model(path, ModelOptions(gpu_layers=0), log)
    context = Context(
        model,
        ContextOptions(
            n_ctx=512,
            n_seq_max=4,
            n_ubatch=load.ubatch,
            n_outputs_max=load.n_outputs,
            rollback_rows=load.rollback_rows,
            flash_attn="on",
        ),
        CancelFlag(),
        log,
    )
    assert context.n_ctx == 512
    figures = parse_log(log.lines())
    context.close()
    model.close()
    placement = place(load, ())
    assert abs(figures.kv - sum(kv_bytes(load, placement))) <= 2 * ROUNDING
    states = sum(figures.recurrent.values())
    assert abs(states - sum(recurrent_bytes(load, placement))) <= ROUNDING
