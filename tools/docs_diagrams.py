"""A hook of MkDocs: Mermaid diagrams. Run as a program, it fetches Mermaid's script with npm; `make docs` does so.

Without the script, as in an offline build, diagrams stay code. The script is not in git: it has 3 MB.
"""

import subprocess
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from pymdownx.superfences import fence_code_format  # type: ignore[import-untyped]

VERSION = "11.12.0"
SHA256 = "07e37dfa97b337ccc85365d57eddf99b9706f09db3b59b260d0333b23b343c4b"
SCRIPT = Path(__file__).resolve().parents[1] / ".venv" / f"mermaid-{VERSION}.js"
_IN_SITE = "assets/mermaid.js"
_FENCE = {"name": "mermaid", "class": "mermaid", "format": fence_code_format}


def fetch() -> str:
    """Fetch the script, unless it is there already. Return why diagrams stay code, or an empty string.

    Raises SystemExit if the package has other bytes than expected.
    """
    if SCRIPT.exists():
        return ""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"mermaid@{VERSION}"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as package:
            member = package.extractfile("package/dist/mermaid.min.js")
            content = member.read() if member else b""
    if sha256(content).hexdigest() != SHA256:
        raise SystemExit(
            f"mermaid {VERSION} has the SHA-256 {sha256(content).hexdigest()}, not {SHA256}. Do not use it."
        )
    SCRIPT.write_bytes(content)
    return ""


def on_config(config: MkDocsConfig) -> None:
    """Make diagrams of code blocks, if the script is there."""
    if SCRIPT.exists():
        config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [_FENCE]}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the script to the site."""
    if SCRIPT.exists():
        files.append(File.generated(config, _IN_SITE, abs_src_path=str(SCRIPT)))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load the script before that of the theme, which would fetch one from another server."""
    if 'class="mermaid"' not in output:
        return output
    return output.replace("</head>", f'<script src="{get_relative_url(_IN_SITE, page.url)}"></script></head>', 1)


if __name__ == "__main__":
    if problem := fetch():
        print(f"Diagrams stay code: {problem}", file=sys.stderr)
