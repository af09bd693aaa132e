"""What the controller of `auto` knows, for people: its choices, their gain, what passes cost."""

from __future__ import annotations

from typing import Any

from localspec.cli.output import format_table

_WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Tokens of a pass whose costs are worth showing; between them the curve is smooth."""


def controller_lines(explanation: dict[str, Any]) -> list[str]:
    """Lines for the answer of `Controller.explain`; none where it knows nothing yet."""
    return [*_choices(explanation), *_rates(explanation), *_costs(explanation)]


def _choices(explanation: dict[str, Any]) -> list[str]:
    """One row for each choice: how often it was made, what was expected of it and what it gave."""
    choices: dict[str, dict[str, float]] = explanation.get("choices", {})
    if not choices:
        return []
    rows = [
        [
            "plain" if name in ("", "none") else name,
            str(int(found["rounds"])),
            f"{found['expected_tokens_per_round']:.2f}",
            f"{found['tokens_per_round']:.2f}",
            f"{found['expected_gain']:.2f}x",
            f"{found['gain']:.2f}x",
        ]
        for name, found in sorted(choices.items(), key=lambda item: -item[1]["rounds"])
    ]
    heads = ["auto chose", "rounds", "tokens expected", "came", "gain expected", "came"]
    return format_table(heads, rows, right=range(1, len(heads)))


def _rates(explanation: dict[str, Any]) -> list[str]:
    rate, plain = explanation.get("rate"), explanation.get("plain_rate")
    if not rate or not plain:
        return []
    return [f"now {rate:.1f} tok/s; plain decoding would give {plain:.1f}"]


def _costs(explanation: dict[str, Any]) -> list[str]:
    """The cost curve C(n) at a few widths."""
    costs: list[float] = explanation.get("cost_ms", [])
    shown = [width for width in _WIDTHS if width <= len(costs)]
    if not shown:
        return []
    if shown[-1] != len(costs):
        shown.append(len(costs))
    return format_table(
        ["a pass over tokens", *map(str, shown)],
        [["takes ms", *(f"{costs[width - 1]:.1f}" for width in shown)]],
        right=range(1, len(shown) + 1),
    )
