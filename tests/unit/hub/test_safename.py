"""Names from elsewhere never lead out of the store, and different names stay different."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.catalog.entries import HubSource
from localspec.errors import UsageError
from localspec.hub.safename import safe_component, safe_relative
from localspec.hub.store import Store

TRICKS = [
    "../evil.gguf",
    "a/../../evil.gguf",
    "/etc/passwd",
    "C:/Windows/evil.gguf",
    "C:\\Windows\\evil.gguf",
    "..\\evil.gguf",
    "a\\..\\..\\evil.gguf",
    "a//b.gguf",
    "./a.gguf",
    "nul\0byte.gguf",
    "",
    ".",
    "..",
    "a/",
    "/".join("a" * 40),
]
ODD = [
    "CON",
    "con.gguf",
    "NUL.tar.gguf",
    "com1.gguf",
    "LPT9",
    "trailing. ",
    "trailing.",
    " leading",
    ".hidden.gguf",
    "a:b.gguf",
    'a<b>c|d?e*f".gguf',
    "new\nline.gguf",
    "\x1b[31m.gguf",
    "ünïcödé-模型.gguf",
    "\u202egnp.gguf",
    "x" * 5000 + ".gguf",
    "%2e%2e",
    "~root",
    "\ud800.gguf",
]


@pytest.mark.parametrize("name", TRICKS)
def test_tricks_are_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        safe_relative(name)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ODD)
def test_odd_names_stay_inside_the_store(name: str, tmp_path: Path) -> None:
    path = Store(tmp_path).path_for(HubSource("owner/repo", name))
    assert path.resolve().is_relative_to(tmp_path.resolve())
    assert path.parent.parent == tmp_path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("revision", ["../../x", "refs/pr/1", "a\\b", "CON", "x" * 300])
def test_revisions_stay_inside_the_store(revision: str, tmp_path: Path) -> None:
    path = Store(tmp_path).path_for(HubSource("owner/repo", "f.gguf", revision))
    assert path.parent.parent == tmp_path
    assert path.resolve().is_relative_to(tmp_path.resolve())


@given(st.text(max_size=300))
def test_any_name_is_refused_or_legal_everywhere(name: str) -> None:
    try:
        parts = safe_relative(name).parts
    except UsageError:
        return
    for part in parts:
        assert part not in ("", ".", "..")
        assert part.isascii()
        assert len(part) <= 150
        assert not set(part) & set('<>:"/\\|?*')
        assert part[0] not in ". "
        assert part[-1] not in ". "
        assert part.split(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt1"}


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_different_names_stay_different(one: str, other: str) -> None:
    try:
        safe_one, safe_other = safe_component(one), safe_component(other)
    except UsageError:
        return
    assert (safe_one == safe_other) == (one == other)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}[A-Za-z0-9]\.gguf", fullmatch=True))
def test_ordinary_names_stay_as_they_are(name: str) -> None:
    safe = safe_component(name)
    assert safe in (name, f"%{ord(name[0]):02X}{name[1:]}")
    assert safe == name or name.split(".")[0].lower()[:3] in (
        "con",
        "prn",
        "aux",
        "nul",
        "com",
        "lpt",
    )
