"""A folder of saved pages that stands in for the web."""

import hashlib
from pathlib import Path

from langchain_core.documents import Document

from crag_graph.errors import ConfigurationError, InputError
from crag_graph.ingest.loaders.files import find_files, load_file
from crag_graph.ingest.loaders.plain import plain_metadata
from crag_graph.rules.query import canonical_url
from crag_graph.settings import IngestSettings


def load_folder(folder: Path, settings: IngestSettings) -> list[Document]:
    """Read every page below a folder as a web hit, whole; its address is its own `url`, else that of the file.

    Raises:
        ConfigurationError: a page cannot be read; names it.
    """
    pages = []
    for path in find_files([folder.resolve()]).files:
        try:
            loaded = load_file(path, settings.max_file_mb)
        except InputError as error:
            raise ConfigurationError(f"{path}: {error}; mend it or take it out of web.folder.path") from error
        known = plain_metadata(loaded.documents[0].metadata)
        url = str(known.get("url", path.as_uri()))
        metadata = {"origin": "web", "url": url, "title": known["title"], "provider": "folder"}
        if "date" in known:
            metadata["date"] = known["date"]
        text = "\n\n".join(document.page_content for document in loaded.documents)
        digest = hashlib.sha256(canonical_url(url).encode()).hexdigest()
        pages.append(Document(text, id=f"web-{digest[:16]}", metadata=metadata))
    return pages
