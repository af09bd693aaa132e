"""Tensor and cache types of ggml: numbers, names, block sizes.

The same table as `gguf.GGML_QUANT_SIZES` (a test holds the two together); kept here because
importing `gguf` costs more than reading a header.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GgmlType:
    name: str
    block: int
    """Elements in one block; a row is a whole number of blocks."""
    size: int
    """Bytes of one block."""

    def row_size(self, n: int) -> int:
        """Bytes of a row of `n` elements. Raises ValueError when blocks do not fill it."""
        if n % self.block:
            raise ValueError(f"a row of {n} is not a whole number of {self.name} blocks")
        return n // self.block * self.size


GGML_TYPES: dict[int, GgmlType] = {
    0: GgmlType("f32", 1, 4),
    1: GgmlType("f16", 1, 2),
    2: GgmlType("q4_0", 32, 18),
    3: GgmlType("q4_1", 32, 20),
    6: GgmlType("q5_0", 32, 22),
    7: GgmlType("q5_1", 32, 24),
    8: GgmlType("q8_0", 32, 34),
    9: GgmlType("q8_1", 32, 40),
    10: GgmlType("q2_K", 256, 84),
    11: GgmlType("q3_K", 256, 110),
    12: GgmlType("q4_K", 256, 144),
    13: GgmlType("q5_K", 256, 176),
    14: GgmlType("q6_K", 256, 210),
    15: GgmlType("q8_K", 256, 292),
    16: GgmlType("iq2_xxs", 256, 66),
    17: GgmlType("iq2_xs", 256, 74),
    18: GgmlType("iq3_xxs", 256, 98),
    19: GgmlType("iq1_s", 256, 50),
    20: GgmlType("iq4_nl", 32, 18),
    21: GgmlType("iq3_s", 256, 110),
    22: GgmlType("iq2_s", 256, 82),
    23: GgmlType("iq4_xs", 256, 136),
    24: GgmlType("i8", 1, 1),
    25: GgmlType("i16", 1, 2),
    26: GgmlType("i32", 1, 4),
    27: GgmlType("i64", 1, 8),
    28: GgmlType("f64", 1, 8),
    29: GgmlType("iq1_m", 256, 56),
    30: GgmlType("bf16", 1, 2),
    34: GgmlType("tq1_0", 256, 54),
    35: GgmlType("tq2_0", 256, 66),
    39: GgmlType("mxfp4", 32, 17),
    40: GgmlType("nvfp4", 64, 36),
    41: GgmlType("q1_0", 128, 18),
    42: GgmlType("q2_0", 64, 18),
}
"""By the number a GGUF file writes (ggml.h, enum ggml_type)."""

BY_NAME: dict[str, GgmlType] = {kind.name: kind for kind in GGML_TYPES.values()}
KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""Types the KV cache can have."""
