"""How the next token is chosen: the options of llama.cpp's sampler chain, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.errors import UsageError


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """Defaults are llama.cpp's (`common_params_sampling`, common/common.h)."""

    temp: float = 0.8
    """0 is greedy: the most probable token, ties to the lowest id."""
    top_k: int = 40
    """0 keeps all."""
    top_p: float = 0.95
    """1.0 is off."""
    min_p: float = 0.05
    """0.0 is off."""
    typical_p: float = 1.0
    """1.0 is off."""
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_penalty: float = 1.0
    """1.0 is off."""
    repeat_last_n: int = 64
    """Tokens that penalties look back on; 0 is off, -1 the whole context."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    """0.0 is off."""
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    """0 off, 1 or 2 the version of the algorithm; it replaces top-k, top-p and the rest."""
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Pairs of token id and what is added to its logit."""
    grammar: str = ""
    """GBNF text; empty for none."""
    grammar_root: str = "root"
    seed: int | None = None
    """None draws a new seed for each answer."""

    @property
    def is_greedy(self) -> bool:
        return self.temp <= 0.0 and self.mirostat == 0

    @property
    def draws_from_softmax(self) -> bool:
        """Whether each token is one draw from the softmax of what the filters leave, and nothing
        else is random or grows with the answer. Speculative sampling needs it."""
        return (
            self.temp > 0.0
            and self.mirostat == 0
            and self.xtc_probability <= 0.0
            and not self.grammar
        )

    def check(self) -> None:
        """Raises UsageError that names the first value out of range."""
        ranges: tuple[tuple[str, float, float, float], ...] = (
            ("temp", self.temp, 0.0, 100.0),
            ("top-k", self.top_k, 0, 2**31 - 1),
            ("top-p", self.top_p, 0.0, 1.0),
            ("min-p", self.min_p, 0.0, 1.0),
            ("typical-p", self.typical_p, 0.0, 1.0),
            ("repeat-penalty", self.repeat_penalty, 0.01, 100.0),
            ("repeat-last-n", self.repeat_last_n, -1, 2**31 - 1),
            ("mirostat", self.mirostat, 0, 2),
            ("xtc-probability", self.xtc_probability, 0.0, 1.0),
            ("dry-multiplier", self.dry_multiplier, 0.0, 100.0),
            ("seed", -1 if self.seed is None else self.seed, -1, 2**32 - 1),
        )
        for name, value, low, high in ranges:
            if not low <= value <= high:
                raise UsageError(
                    f"--{name} {value} is out of range",
                    hint=f"between {low} and {high}",
                    option=name,
                    value=value,
                )


GREEDY = SamplingSettings(temp=0.0)
