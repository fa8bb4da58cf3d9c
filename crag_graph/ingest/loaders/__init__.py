"""Reading files of many formats as text that one chunker can cut."""

from crag_graph.ingest.loaders.files import find_files, load_file, parse, read_bytes
from crag_graph.ingest.loaders.folder import load_folder
from crag_graph.ingest.loaders.loaded import LoadedFile

__all__ = ["LoadedFile", "find_files", "load_file", "load_folder", "parse", "read_bytes"]
