"""Building a static lookup cache: texts in, n-grams of two tokens out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from localspec.cli.output import Output
from localspec.cli.transcript_file import load_chat
from localspec.decoding.lookup_cache import NGRAM_STATIC, LookupCache
from localspec.engine.settings import EngineSettings, ModelSettings
from localspec.errors import UsageError

_PIECE = 64 * 1024
"""Characters tokenised at once: the progress bar moves, and memory stays small."""


def readable_texts(files: Sequence[Path], output: Output) -> list[tuple[Path, str]]:
    """Each file with its text; chats give one text for each message.

    A file that was named must be readable; inside of a folder, what is no text is passed over.
    Raises UsageError.
    """
    texts: list[tuple[Path, str]] = []
    passed_over = 0
    for path in files:
        if path.is_dir():
            for inner in _files_in(path):
                try:
                    texts += _texts_of(inner)
                except UsageError:
                    passed_over += 1
        else:
            texts += _texts_of(path)
    if passed_over:
        output.note(f"passed over {passed_over} files that are not text")
    if not texts:
        raise UsageError("there is no text in what was named", hint="name files of UTF-8 text")
    return texts


async def build_static_cache(
    texts: Sequence[tuple[Path, str]], model: Path, output: Output
) -> tuple[LookupCache, int]:
    """The cache of `texts` in the tokens of `model`, and how many tokens they had."""
    from localspec.cli.run_engine import start_engine

    cache = LookupCache()
    total = sum(len(text) for _, text in texts)
    done = n_tokens = 0
    engine = await start_engine(
        EngineSettings(ModelSettings(model), method="none", draft_max=1, n_ctx=256), output
    )
    try:
        for path, text in texts:
            context: list[int] = []
            for piece in pieces(text):
                tokens = await engine.tokenize(piece)
                # The last tokens of the piece before, so that n-grams across the border count.
                cache.learn(
                    [*context, *tokens],
                    len(context),
                    ngram_min=NGRAM_STATIC,
                    ngram_max=NGRAM_STATIC,
                )
                context = [*context, *tokens][-NGRAM_STATIC:]
                n_tokens += len(tokens)
                done += len(piece)
                output.progress(path.name, done / total, f"{n_tokens} tokens")
    finally:
        await engine.close()
        output.clear_status()
    return cache, n_tokens


def pieces(text: str, size: int = _PIECE) -> Iterator[str]:
    """`text` in pieces of about `size` characters, divided behind line breaks where there are any:
    a token seldom reaches over one."""
    start = 0
    while start < len(text):
        end = start + size
        if end < len(text):
            border = text.rfind("\n", start, end) + 1
            end = border if border > start else end
        yield text[start:end]
        start = end


def _texts_of(path: Path) -> list[tuple[Path, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a text file") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not UTF-8 text", hint="name text files, or chats saved with /save"
        ) from error
    messages = load_chat(path) if path.suffix == ".json" else None
    if messages is not None:
        return [(path, message.content) for message in messages if message.content]
    # As llama-lookup-create reads a file: without the line break that ends it.
    text = text.removesuffix("\n")
    return [(path, text)] if text else []


def _files_in(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
