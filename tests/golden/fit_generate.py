"""Takes the golden figures of `fit_table.json` from llama.cpp.

`python -m tests.golden.fit_generate` loads every ghost of `tests.support.ghosts` with `no_alloc`;
the native log has the figures. A few minutes on two cores. Run it again only when llama.cpp
changes, and look at the difference. With names it takes only those again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from localspec.memory.probe import ProbeRequest, parse_log
from tests.support.ghosts import MODELS, write_ghost_of

TABLE = Path(__file__).with_name("fit_table.json")
CONTEXTS = (4096, 32768, 131072)
UBATCHES = (128, 512)
CACHES = (("f16", True), ("q8_0", True), ("q4_0", True), ("f16", False))
"""KV type, and whether flash attention is on; a quantised cache needs it."""
N_OUTPUTS = 17
ROLLBACK_ROWS = 4


def main() -> None:
    import logging

    from localspec.llama.library import library_version
    from localspec.llama.probe import run_probe

    # llama.cpp warns about synthetic tokens, once for each of 500 loads.
    logging.getLogger("localspec.llama").setLevel(logging.ERROR)
    wanted = sys.argv[1:] or list(MODELS)
    models: dict[str, Any] = json.loads(TABLE.read_text())["models"] if TABLE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            ghost = write_ghost_of(name, Path(folder) / f"{name}.gguf")
            models[name] = _figures(ghost, run_probe)
            ghost.unlink()
            print(name, len(models[name]["rows"]), flush=True)
    document = {
        "how": (
            "localspec.llama.probe.run_probe on ghosts written by tests.support.ghosts, CPU "
            f"backend; {N_OUTPUTS} outputs, {ROLLBACK_ROWS} rollback rows, unified cache, small "
            "sliding windows; bytes are the log's MiB with two decimals, weights llama_model_size"
        ),
        "library": library_version(),
        "columns": [
            *("n_ctx", "n_ubatch", "kv_type", "flash_attn"),
            *("kv", "recurrent", "compute"),
        ],
        "models": {name: models[name] for name in MODELS if name in models},
    }
    TABLE.write_text(_compact(document))


def _figures(ghost: Path, run_probe: Any) -> dict[str, Any]:
    rows, size = [], 0
    for n_ctx in CONTEXTS:
        for n_ubatch in UBATCHES:
            for kv_type, flash_attn in CACHES:
                answer = run_probe(
                    ProbeRequest(
                        path=ghost,
                        n_ctx=n_ctx,
                        n_batch=2048,
                        n_ubatch=n_ubatch,
                        n_outputs=N_OUTPUTS,
                        n_seq=1,
                        kv_type=kv_type,
                        flash_attn=flash_attn,
                        gpu_layers=0,
                        rollback_rows=ROLLBACK_ROWS,
                    )
                )
                if not answer.ok:
                    raise SystemExit(f"{ghost.name}: " + "\n".join(answer.lines[-5:]))
                found = parse_log(answer.lines)
                size = answer.tensor_bytes - found.unused
                rows.append(
                    [
                        *(n_ctx, n_ubatch, kv_type, flash_attn, found.kv),
                        *(sum(found.recurrent.values()), sum(found.compute.values())),
                    ]
                )
    return {"weights": size, "rows": rows}


def _compact(document: dict[str, Any]) -> str:
    """JSON with one row of figures per line."""
    text = json.dumps({**document, "models": "@"}, indent=1)
    models = ",\n".join(
        f'  "{name}": {{"weights": {found["weights"]}, "rows": [\n   '
        + ",\n   ".join(json.dumps(row) for row in found["rows"])
        + "\n  ]}"
        for name, found in document["models"].items()
    )
    return text.replace('"@"', "{\n" + models + "\n }") + "\n"


if __name__ == "__main__":
    main()
