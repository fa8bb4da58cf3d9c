"""What reading one file gives."""

from dataclasses import dataclass

from langchain_core.documents import Document


@dataclass(frozen=True)
class LoadedFile:
    """The texts of one file, in order: one per page or record, else a single one.

    Each document's metadata has `source` and `title`, and where known `page` (from 1) and `date` (ISO). `markdown`
    says whether headings, tables and fences in the texts are meant as such. `warnings` are for the person who
    ingests: what could be read only in part.
    """

    documents: list[Document]
    markdown: bool = True
    warnings: tuple[str, ...] = ()
