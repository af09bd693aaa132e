"""May this draft propose tokens for that target? llama.cpp's rule, from the two headers alone.

The rule of llama.cpp's common/speculative.cpp: the same vocabulary type, the same BOS and EOS where
they are added, sizes within 128, and the same text for every shared token from id 5 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from localspec.errors import IncompatiblePair
from localspec.ggufmeta.header import Header
from localspec.ggufmeta.vocabulary import Vocabulary, fingerprint, read_vocabulary

MAX_SIZE_DIFFERENCE = 128
FIRST_COMPARED = 5
"""Ids below are special in most vocabularies and may be named differently."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that keeps a pair apart."""

    what: str
    """`vocabulary type`, `BOS`, `EOS`, `size` or `token`."""
    target: str
    draft: str
    token_id: int | None = None


@dataclass(frozen=True, slots=True)
class Compatibility:
    compatible: bool
    difference: Difference | None
    target_tokens: int
    draft_tokens: int
    target_fingerprint: str
    draft_fingerprint: str

    @property
    def identical(self) -> bool:
        """Every token, type and special id is the same, not only what the rule compares."""
        return self.target_fingerprint == self.draft_fingerprint


def check_pair(target: Header, draft: Header) -> Compatibility:
    """Hold the two vocabularies against the rule. Raises BadModelFile when one has none."""
    ours, theirs = read_vocabulary(target), read_vocabulary(draft)
    difference = first_difference(ours, theirs)
    return Compatibility(
        compatible=difference is None,
        difference=difference,
        target_tokens=ours.n_tokens,
        draft_tokens=theirs.n_tokens,
        target_fingerprint=fingerprint(target),
        draft_fingerprint=fingerprint(draft),
    )


def require_pair(target: Header, draft: Header) -> Compatibility:
    """As `check_pair`. Raises IncompatiblePair, naming the first difference."""
    found = check_pair(target, draft)
    if found.difference is not None:
        raise IncompatiblePair(
            f"{draft.name} cannot draft for {target.name}: {explain(found.difference)}",
            hint="a draft must come from the same model family: localspec list --for TARGET",
            what=found.difference.what,
            target=found.difference.target,
            draft=found.difference.draft,
        )
    return found


def explain(difference: Difference) -> str:
    """One clause that names both values."""
    if difference.what == "token":
        return (
            f"token {difference.token_id} is {difference.target} in the target "
            f"and {difference.draft} in the draft"
        )
    return (
        f"the {difference.what} is {difference.target} in the target "
        f"and {difference.draft} in the draft"
    )


def first_difference(target: Vocabulary, draft: Vocabulary) -> Difference | None:
    """What the rule trips over first, or None."""
    if target.kind != draft.kind:
        return Difference("vocabulary type", target.kind, draft.kind)
    for what, ours, theirs in (
        ("BOS", (target.add_bos, target.bos), (draft.add_bos, draft.bos)),
        ("EOS", (target.add_eos, target.eos), (draft.add_eos, draft.eos)),
    ):
        if ours[0] != theirs[0] or (ours[0] and ours[1] != theirs[1]):
            return Difference(what, _added(*ours), _added(*theirs))
    if abs(target.n_tokens - draft.n_tokens) > MAX_SIZE_DIFFERENCE:
        return Difference("size", f"{target.n_tokens} tokens", f"{draft.n_tokens} tokens")
    if target.tokens.raw == draft.tokens.raw:
        return None
    pairs = zip(target.texts(), draft.texts(), strict=False)
    for index, (ours_text, theirs_text) in enumerate(pairs):
        if index >= FIRST_COMPARED and ours_text != theirs_text:
            return Difference("token", _shown(ours_text), _shown(theirs_text), index)
    return None


def _added(added: bool, token: int | None) -> str:
    return f"added (id {token})" if added else "not added"


def _shown(text: bytes) -> str:
    shown = text[:40].decode("utf-8", "replace")
    return repr(shown + ("…" if len(text) > 40 else ""))
