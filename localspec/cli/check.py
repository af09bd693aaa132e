"""`localspec check`: may this draft propose tokens for that target?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from localspec.cli.output import Output

if TYPE_CHECKING:
    from localspec.ggufmeta.compatibility import Compatibility


def command(
    output: Output,
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="A path, owner/repo[:file], or a pair of the list."),
    ],
    draft: Annotated[
        str,
        typer.Argument(metavar="[DRAFT]", help="The same; the pair's own draft when left out."),
    ] = "",
) -> int:
    """Tell whether target and draft have the same vocabulary, and if not, what differs first.

    Only headers are read: a few megabytes of files that are not here yet. The rule is llama.cpp's.
    Exit code 5 means that they do not match.
    """
    from localspec.catalog.load import load_catalog
    from localspec.cli.engine_options import DraftChoice
    from localspec.cli.headers import find_pair
    from localspec.errors import IncompatiblePair, UsageError
    from localspec.ggufmeta.compatibility import check_pair, explain
    from localspec.hub.draft_candidates import why_no_gain
    from localspec.paths import user_paths

    paths = user_paths()
    output.status("reading headers")
    pair = find_pair(target, DraftChoice("model", draft or None), load_catalog(paths), paths)
    output.clear_status()
    if pair.draft is None:
        raise UsageError(f"{target} has no draft of its own", hint="localspec check TARGET DRAFT")
    same_file = pair.draft.path == pair.target.path and pair.draft.source == pair.target.source
    no_gain = why_no_gain(pair.target.header, pair.draft.header, same_file=same_file)
    found = check_pair(pair.target.header, pair.draft.header)
    output.document(
        {
            **_document(target, draft, pair.target.header.name, pair.draft.header.name, found),
            "warning": no_gain,
        }
    )
    if found.difference is None:
        _show(output, found)
        if no_gain:
            output.warn(no_gain)
        return 0
    output.line(output.style("not compatible", "red bold"))
    output.line(explain(found.difference))
    output.note("a draft must come from the same family: localspec list --for MODEL")
    return IncompatiblePair.exit_code


def _document(
    target: str, draft: str, target_name: str, draft_name: str, found: Compatibility
) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "compatible": found.compatible,
        "identical": found.identical,
        "difference": None if found.difference is None else asdict(found.difference),
        "target": {
            "name": target,
            "file": target_name,
            "n_vocab": found.target_tokens,
            "fingerprint": found.target_fingerprint,
        },
        "draft": {
            "name": draft,
            "file": draft_name,
            "n_vocab": found.draft_tokens,
            "fingerprint": found.draft_fingerprint,
        },
    }


def _show(output: Output, found: Compatibility) -> None:
    output.line(output.style("compatible", "green bold"))
    if found.identical:
        output.line(f"the same vocabulary of {found.target_tokens} tokens")
    elif found.target_tokens == found.draft_tokens:
        output.line(f"{found.target_tokens} tokens, the same texts where the rule compares them")
    else:
        output.line(
            f"{found.target_tokens} and {found.draft_tokens} tokens: "
            "the shared ones are the same, the rest is padding"
        )
