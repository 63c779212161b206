"""Renders views as HTML. Every text is escaped, and control characters are replaced."""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stoker_api.meta import shortened
from stoker_cli.dashboard.core.views import Frame, PageView
from stoker_cli.output import printable

_PACKAGE = "stoker_cli.dashboard.pages"
_MOST_OF_CELL = 500  # characters
STATIC = {
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def _clean(value: object) -> object:
    """Replace characters that change how a text is read, such as those for right-to-left order."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _short(value: str) -> str:
    """Bound a cell of a table. Messages of a cluster have up to 256 KiB."""
    return shortened(value, _MOST_OF_CELL)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["short"] = _short
    return environment


def page(view: PageView, frame: Frame, *, revision: int) -> str:
    """Return a page with its navigation. ``revision``: that of the shown objects."""
    return _environment().get_template("page.html").render(page=view, frame=frame, live=True, revision=revision)


def message(title: str, sentences: str, frame: Frame, *, back: str) -> str:
    """Return a page with the result of an action or an error, and a link to ``back``."""
    template = _environment().get_template("message.html")
    lines = sentences.splitlines()
    return template.render(page=PageView(title, ""), lines=lines, frame=frame, back=back, live=False, revision=0)


def sign_in(problem: str, namespace: str) -> str:
    """Return the form for a token. ``problem``: why the last try failed, empty if none."""
    return _environment().get_template("sign_in.html").render(problem=problem, namespace=namespace)


def signed_in() -> str:
    """Return the page that opens the first view.

    A link in it, in place of a redirect: browsers do not send strict cookies in a redirect after a foreign link.
    """
    return _environment().get_template("signed_in.html").render()


def static(name: str) -> bytes:
    """Return a static file of STATIC."""
    return files(_PACKAGE).joinpath("static", name).read_bytes()
