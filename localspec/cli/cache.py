"""`localspec cache`: lookup caches, which remember what tended to follow what."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localspec.cli.output import Output
from localspec.errors import CacheFileError, UsageError
from localspec.paths import user_paths
from localspec.units import format_file_size

if TYPE_CHECKING:
    from localspec.decoding.lookup_cache import LookupCache

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write.")]


def build(
    output: Output,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Text files, chats saved with /save, or folders of them.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str,
        typer.Option(metavar="MODEL", help="Whose vocabulary to use; the cache fits no other."),
    ],
    out: Out,
) -> None:
    """Build a static lookup cache from text files or saved chats.

    Give it what answers will resemble: the code base, the documentation, former chats. Then use it
    with `localspec run MODEL --lookup-static FILE`. llama.cpp reads the same file.
    """
    from localspec.cli.cache_build import build_static_cache, readable_texts
    from localspec.cli.engine_options import DraftChoice
    from localspec.cli.run_models import prepare_models
    from localspec.decoding.lookup_file import write_lookup_file

    _check_out(out)
    texts = readable_texts(files, output)
    models = prepare_models(model, DraftChoice("none", None), output, user_paths())
    vocabulary = _vocabulary_of(models.target)
    cache, tokens = asyncio.run(build_static_cache(texts, models.target, output))
    if not len(cache):
        raise UsageError(
            "the files have too little text: no two tokens in a row",
            hint="give it what answers will resemble: code, documentation, former chats",
        )
    write_lookup_file(out, cache, vocabulary=vocabulary)
    facts = {**_facts(out, cache, vocabulary), "tokens": tokens}
    output.document(facts)
    output.line(f"{out}: {facts['ngrams']} n-grams from {tokens} tokens, {_size(facts)}")


def info(
    output: Output,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Lookup caches. None: those that past sessions filled.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what is in lookup caches."""
    from localspec.decoding.lookup_file import read_lookup_file, read_vocabulary

    found = [
        _facts(path, read_lookup_file(path), read_vocabulary(path))
        for path in files or _dynamic_caches()
    ]
    output.document(found)
    if not found:
        output.line("no lookup caches yet; they fill while you use --draft ngram or auto")
        return
    output.table(
        ["n-grams", "followers", "seen", "size", "vocabulary", "file"],
        [
            [
                str(facts["ngrams"]),
                str(facts["followers"]),
                str(facts["seen"]),
                _size(facts),
                facts["vocabulary"] or "unknown",
                str(facts["path"]),
            ]
            for facts in found
        ],
        right=(0, 1, 2, 3),
    )


def merge(
    output: Output,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Lookup caches, oldest first.", show_default=False),
    ],
    out: Out,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Whose vocabulary it is, where no cache says so itself."
        ),
    ] = None,
) -> None:
    """Add lookup caches of one vocabulary together."""
    from localspec.decoding.lookup_cache import LookupCache
    from localspec.decoding.lookup_file import (
        ForeignCache,
        read_lookup_file,
        read_vocabulary,
        write_lookup_file,
    )

    _check_out(out)
    vocabulary = None if model is None else _vocabulary_of(_local_target(model))
    merged = LookupCache()
    for path in files:
        named = read_vocabulary(path)
        if named is not None and vocabulary not in (None, named):
            raise ForeignCache(
                f"{path.name} was made with the vocabulary {named}, the others with {vocabulary}",
                hint="only caches of one vocabulary can be merged",
                path=str(path),
            )
        vocabulary = vocabulary or named
        merged.merge(read_lookup_file(path))
    if vocabulary is None:
        raise UsageError(
            "none of these caches says which vocabulary it has", hint="name it: --model MODEL"
        )
    write_lookup_file(out, merged, vocabulary=vocabulary)
    facts = _facts(out, merged, vocabulary)
    output.document(facts)
    output.line(f"{out}: {facts['ngrams']} n-grams, {_size(facts)}")


def clear(
    output: Output,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Lookup caches. None: all that past sessions filled.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Delete lookup caches: forget what past sessions taught."""
    from localspec.decoding.lookup_store import LookupStore, leftovers

    folder = user_paths().lookup
    paths = files or _dynamic_caches()
    for path in paths:
        if not path.is_file():
            raise CacheFileError(
                f"{path}: no such file",
                hint="localspec cache info shows which there are",
                path=str(path),
            )
    if paths and not output.assume_yes:
        names = f"{len(paths)} lookup caches" if len(paths) > 1 else str(paths[0])
        if not output.confirm(f"Delete {names}?"):
            raise UsageError("nothing was deleted", hint="--yes answers the question")
    freed = sum(LookupStore(path, "").clear() for path in paths)
    if not files:
        # Files set aside as unreadable, and locks of caches that are gone.
        freed += sum(LookupStore(path, "").clear() for path in leftovers(folder))
    output.document({"deleted": paths, "bytes": freed})
    what = "1 lookup cache" if len(paths) == 1 else f"{len(paths)} lookup caches"
    output.line(f"deleted: {what}, {format_file_size(freed)}")


subcommands = {"build": build, "info": info, "merge": merge, "clear": clear}


def _check_out(out: Path) -> None:
    """Raises UsageError before any work is done for a file that could not be written."""
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder", hint=f"a file in it: {out / 'lookup.bin'}")
    if not out.absolute().parent.is_dir():
        raise UsageError(
            f"--out {out}: there is no folder {out.absolute().parent}", hint="make it first"
        )


def _dynamic_caches() -> list[Path]:
    return sorted(user_paths().lookup.glob("*.bin"))


def _facts(path: Path, cache: LookupCache, vocabulary: str | None) -> dict[str, Any]:
    sizes = [len(followers) for _, followers in cache]
    return {
        "path": path,
        "size": path.stat().st_size,
        "vocabulary": vocabulary,
        "ngrams": len(cache),
        "followers": sum(sizes),
        "seen": sum(sum(followers.values()) for _, followers in cache),
    }


def _size(facts: dict[str, Any]) -> str:
    return format_file_size(facts["size"])


def _local_target(model: str) -> Path:
    from localspec.catalog.load import load_catalog
    from localspec.hub.resolve import LocalFile, resolve

    paths = user_paths()
    target = resolve(model, load_catalog(paths), paths).target
    if not isinstance(target, LocalFile):
        raise UsageError(f"{model} is not here yet", hint=f"localspec pull {model}")
    return target.path


def _vocabulary_of(model: Path) -> str:
    from localspec.ggufmeta.header import read_header
    from localspec.ggufmeta.vocabulary import fingerprint

    return fingerprint(read_header(model))
