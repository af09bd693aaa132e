"""Whether models go into memory, from the fit calculator's answers."""

from __future__ import annotations

from localspec.errors import LocalspecError
from localspec.paths import Paths
from localspec.tui.backend.library import Library
from localspec.tui.backend.views import UNKNOWN_FIT, FitBrief, FitChoice, FitReport


class Fitting:
    def __init__(self, paths: Paths, library: Library) -> None:
        self._paths = paths
        self._library = library

    def brief(self, model: str) -> FitBrief:
        return UNKNOWN_FIT

    def report(self, model: str, choice: FitChoice) -> FitReport:
        raise LocalspecError("the fit calculator is not there")
