"""The layout of models.toml, checked by pydantic. Imported only when a catalogue is loaded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
RepoId = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$"),
]
Line = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00-\x1f]*$")]
Requirement = Annotated[
    str,
    # A leading dash would be an option to pip, and an address would be another source.
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*$"),
]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class WheelPartTable(_Table):
    requirement: Requirement
    member: Line


class ReportedTable(_Table):
    figure: Line
    source: Line


class ModelTable(_Table):
    name: str = ""
    repo: RepoId | None = None
    filename: Line | None = None
    revision: Line | None = None
    wheels: Annotated[list[WheelPartTable], Field(min_length=1)] | None = None
    path: Line | None = None
    sha256: Sha256 | None = None
    size: Annotated[int, Field(gt=0)] | None = None
    license: str = ""

    @model_validator(mode="after")
    def _one_source(self) -> ModelTable:
        given = [key for key in ("repo", "wheels", "path") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(
                f"needs one of repo, wheels and path, has {' and '.join(given) or 'none'}"
            )
        if given == ["wheels"] and not self.filename:
            raise ValueError("wheels need a filename for the joined file")
        if given == ["wheels"] and (self.sha256 is None or self.size is None):
            raise ValueError("wheels need sha256 and size")
        if given == ["path"] and (self.filename or self.revision):
            raise ValueError("path stands alone, without filename and revision")
        if given == ["wheels"] and self.revision:
            raise ValueError("revision belongs to repo")
        return self


class PairTable(_Table):
    method: Literal["ngram", "draft", "mtp", "dflash", "dspark", "eagle3"]
    target: Line
    draft: Line | None = None
    draft_max: Annotated[int, Field(ge=1, le=64)] | None = None
    p_min: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    note: str = ""
    reported: ReportedTable | None = None

    @model_validator(mode="after")
    def _draft_by_method(self) -> PairTable:
        if self.method == "ngram" and self.draft is not None:
            raise ValueError("method ngram has no draft")
        if self.method == "draft" and self.draft is None:
            raise ValueError("method draft needs a draft")
        return self


class CatalogFile(_Table):
    schema_version: Annotated[int, Field(alias="schema", ge=1, le=1)]
    models: dict[str, ModelTable] = Field(default_factory=dict)
    pairs: dict[str, PairTable] = Field(default_factory=dict)
