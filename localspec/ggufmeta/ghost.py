"""Ghost files: a header followed by a sparse hole, as long as the model it stands for.

llama.cpp loads one with `no_alloc` as if it were the model, and tells what it would allocate.
"""

from __future__ import annotations

from pathlib import Path

from localspec.errors import BadModelFile, LocalspecError
from localspec.ggufmeta.header import Header, Part, split_name
from localspec.ggufmeta.source import ByteSource, FileSource

_COPY = 4 * 1024 * 1024


def write_ghost(source: ByteSource, part: Part, path: Path) -> Path:
    """A ghost of one file at `path`. `part` describes what `source` holds.

    Raises BadModelFile when the source ends before its header does, LocalspecError when `path`
    cannot be written.
    """
    try:
        with path.open("wb") as out:
            offset = 0
            while offset < part.header_size:
                data = source.read(offset, min(_COPY, part.header_size - offset))
                if not data:
                    break
                out.write(data)
                offset += len(data)
            size = part.full_size
            if offset < part.header_size and part.data_size:
                raise BadModelFile(f"{source.name} ends inside its header")
            out.truncate(size)
    except OSError as error:
        raise LocalspecError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def ghost_model(header: Header, folder: Path) -> Path:
    """Ghosts of all files of a local model, in `folder`; returns the first, the one to load."""
    first = folder / Path(header.parts[0].name).name
    for number, part in enumerate(header.parts, 1):
        name = first.name if number == 1 else split_name(first.name, number)
        with FileSource(Path(part.name)) as source:
            write_ghost(source, part, folder / name)
    return first
