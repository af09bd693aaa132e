"""Which layer goes to which device: the rule of llama-model.cpp, load_tensors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from localspec.memory.request import ModelLoad


@dataclass(frozen=True, slots=True)
class Placement:
    """Device index of every layer; GPUs come first, the host has the last index."""

    layers: tuple[int, ...]
    output: int
    host: int

    @property
    def is_partial(self) -> bool:
        """Some layers on a GPU, others not."""
        return len({device == self.host for device in self.layers}) > 1

    @property
    def on_gpu(self) -> int:
        """Layers on GPUs, the output counted as one more."""
        return sum(device != self.host for device in (*self.layers, self.output))


def place(load: ModelLoad, gpu_shares: Sequence[float]) -> Placement:
    """Where the layers of `load` go. gpu_shares: free memory, or any weights, of each GPU."""
    host, n_all = len(gpu_shares), len(load.architecture.layers)
    asked = n_all + 1 if load.gpu_layers is None else load.gpu_layers
    active = min(max(asked, 0), n_all + 1) if host else 0
    if active == 0:
        return Placement((host,) * n_all, host, host)
    first = max(n_all + 1 - max(asked, 0), 0)
    shares = list(load.tensor_split[:host]) or [max(share, 0.0) for share in gpu_shares]
    shares += [0.0] * (host - len(shares))
    total = sum(shares) or float(host)
    ends = [end / total for end in accumulate(shares if sum(shares) else [1.0] * host)]

    def device(index: int) -> int:
        if index < first:
            return host
        return min(bisect_right(ends, (index - first) / active), host - 1)

    return Placement(tuple(device(i) for i in range(n_all)), device(n_all), host)
