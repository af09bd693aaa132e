"""What to do about an error that does not say so itself, by its kind."""

from __future__ import annotations

from localspec import errors

_BY_KIND: dict[type[errors.LocalspecError], str] = {
    errors.ConfigError: "mend the file, or move it away",
    errors.UsageError: "localspec --help lists the commands, localspec COMMAND --help its options",
    errors.DownloadError: "pull again: what was fetched so far is kept",
    errors.DoesNotFit: "localspec fit MODEL shows what would fit",
    errors.IncompatiblePair: "localspec list --for MODEL shows what could draft for it",
    errors.BadModelFile: "the file may be damaged or cut off: download it again",
    errors.CacheFileError: "localspec cache info shows the lookup caches, cache clear removes them",
    errors.SamplerError: "loosen the sampler settings or the grammar",
    errors.EngineError: "try again; --debug shows where it came from",
    errors.LocalspecError: "--debug shows where it came from",
}


def hint_for(error: errors.LocalspecError) -> str:
    """The error's own hint, else that of its kind; empty where the user stopped the program."""
    if error.hint or error.exit_code == errors.Interrupted.exit_code:
        return error.hint
    return next(_BY_KIND[kind] for kind in type(error).__mro__ if kind in _BY_KIND)
