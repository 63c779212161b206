"""A hook of MkDocs: files outside docs/ that pages link to become part of the site, so that no link leaves it."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_TARGET = re.compile(r"(?<=\]\()[^)\s#:]+(?=[)#])")
_DOCS, _COPIES = "docs/", "source/"  # in the repository, in the site


def linked_file(page: str, target: str) -> str:
    """Return the path in the site of a page's link, which is a path in the repository relative to the page."""
    there = page.removeprefix(_COPIES) if page.startswith(_COPIES) else _DOCS + page
    path = posixpath.normpath(posixpath.join(posixpath.dirname(there), target))
    return path.removeprefix(_DOCS) if path.startswith(_DOCS) else _COPIES + path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add copies of the files outside docs/ that pages link to."""
    pages = list(files.documentation_pages())
    for page in pages:
        for path in (linked_file(page.src_uri, target) for target in _TARGET.findall(page.content_string)):
            if path.startswith(_COPIES) and files.get_file_from_path(path) is None:
                original = Path(config.docs_dir).parent / path.removeprefix(_COPIES)
                copy = File.generated(config, path, abs_src_path=str(original))
                files.append(copy)
                pages += [copy] if copy.is_documentation_page() else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site's files."""
    here = page.file.src_uri

    def target(match: re.Match[str]) -> str:
        return posixpath.relpath(linked_file(here, match[0]), posixpath.dirname(here) or ".")

    return _TARGET.sub(target, markdown)
