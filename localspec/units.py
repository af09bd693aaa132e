"""Bytes, rates and durations: parsing what users type, formatting what they read."""

from __future__ import annotations

import re

from localspec.errors import UsageError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_SUFFIXES = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "kb": 10**3,
    "kib": KIB,
    "m": 10**6,
    "mb": 10**6,
    "mib": MIB,
    "g": 10**9,
    "gb": 10**9,
    "gib": GIB,
    "t": 10**12,
    "tb": 10**12,
    "tib": 1024 * GIB,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_size(text: str) -> int:
    """Bytes named by `24GiB`, `8 GB`, `512MiB` or a bare count. Raises UsageError."""
    match = _SIZE.fullmatch(text)
    factor = _SUFFIXES.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise UsageError(f"{text!r} is not a size", hint="write it like 24GiB, 8GB or 512MiB")
    return int(float(match.group(1)) * factor)


def parse_memory(text: str, option: str) -> int:
    """Bytes named by the value of `option`: as `parse_size`, but a bare number is refused, for
    nobody means 24 bytes of memory. Raises UsageError that names the option."""
    if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", text):
        raise UsageError(f"{option} {text} has no unit", hint=f"write {text.strip()}GiB")
    try:
        size = parse_size(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from error
    if size <= 0:
        raise UsageError(f"{option} {text} is no memory", hint="write it like 24GiB")
    return size


def format_bytes(count: int) -> str:
    """Memory in binary units: `512 B`, `1.5 MiB`, `22.6 GiB`."""
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def format_file_size(count: int) -> str:
    """File sizes in decimal units, as file managers and the Hub show them: `4.7 GB`."""
    return _scaled(count, 1000, ("B", "kB", "MB", "GB", "TB"))


def format_rate(bytes_per_second: float) -> str:
    """`12.3 MB/s`."""
    return f"{format_file_size(int(bytes_per_second))}/s"


def percent(share: float) -> str:
    """`71%`; 100% only where it is all, 0% only where it is nothing."""
    if 0.0 < share < 0.01:
        return "<1%"
    return f"{int(share * 100 + 1e-9)}%" if 0.99 < share < 1.0 else f"{share:.0%}"


def format_duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _scaled(count: int, step: int, units: tuple[str, ...]) -> str:
    sign, value, index = ("-" if count < 0 else ""), float(abs(count)), 0
    while value >= step and index < len(units) - 1:
        value /= step
        index += 1
    return f"{sign}{value:.0f} {units[0]}" if index == 0 else f"{sign}{value:.1f} {units[index]}"
