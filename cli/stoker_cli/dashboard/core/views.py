"""What a page shows, independent of HTML. All texts are untrusted and unescaped."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Frame:
    """What all pages of a signed-in user have. ``csrf``: the token in forms. ``user``: empty with a kubeconfig."""

    namespace: str
    csrf: str
    user: str = ""


@dataclass(frozen=True)
class Link:
    """A text that leads to another page."""

    text: str
    href: str


@dataclass(frozen=True)
class Bar:
    """A progress of 0 to 100 percent, and its text."""

    percent: int
    text: str


CellView = str | Link


@dataclass(frozen=True)
class Pager:
    """Links between the pages of a table. An empty link: there is no such page."""

    text: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class TableView:
    """A table with a caption. The first cell of a row is its header. ``empty``: the sentence without rows."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[CellView]]
    empty: str
    pager: Pager | None = None


@dataclass(frozen=True)
class ActionView:
    """A button. ``refusal``: why the user may not use it, empty if allowed."""

    label: str
    path: str
    explanation: str
    refusal: str = ""


@dataclass(frozen=True)
class Search:
    """A form that filters a page by name."""

    path: str
    label: str
    text: str = ""


@dataclass(frozen=True)
class MapCell:
    """A cell of the warm map. ``level``: ``none``, ``failed``, or ``w0`` to ``w10`` for the warm share in tenths."""

    text: str
    level: str


@dataclass(frozen=True)
class MapRow:
    """A Dataset in the warm map, with a cell per column."""

    dataset: Link
    phase: str
    cells: Sequence[MapCell]


@dataclass(frozen=True)
class WarmMap:
    """Datasets by nodes. A column is a node, or a group of nodes that leads to their map."""

    columns: Sequence[Link]
    rows: Sequence[MapRow]
    explanation: str
    pager: Pager | None = None
    back: Link | None = None  # to the map of all nodes


@dataclass(frozen=True)
class PageView:
    """A page. ``view``: the selected entry of the navigation."""

    title: str
    view: str
    notices: Sequence[str] = ()  # missing rights, and old figures
    sentences: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    bar: Bar | None = None
    actions: Sequence[ActionView] = ()
    search: Search | None = None
    warm_map: WarmMap | None = None
    tables: Sequence[TableView] = field(default_factory=tuple)
