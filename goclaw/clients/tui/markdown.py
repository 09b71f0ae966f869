"""Rendering of Markdown as lines of a terminal; it hides no words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from textual.content import Content
from textual.highlight import highlight
from textual.style import Style

from goclaw.clients.tui.text import QUIET
from goclaw.common.core.markdown import HAS_SCHEME, GrowingMarkdown, markdown_parser

NARROWEST = 8
"""Columns that are used even where there are fewer."""
BULLETS = "•◦▪"
CELL_SEPARATOR = " │ "
MAX_CODE = 20_000
"""Characters of a code block beyond which it is shown without colours."""

Lines = list[Content]

_STYLES: Mapping[str, str] = {"strong": "bold", "em": "italic", "s": "strike"}


@dataclass(slots=True)
class Document:
    """A text that may grow."""

    text: str = ""
    _finished: list[Token] = field(default_factory=list)
    """Tokens of the blocks that no further text can change."""
    _growing: GrowingMarkdown = field(default_factory=GrowingMarkdown)
    _lines: Lines = field(default_factory=list)
    """The finished blocks, for `_width`."""
    _width: int = 0

    def append(self, text: str) -> None:
        """Let the text grow."""
        self.text += text
        finished, _ = self._growing.append(text)
        if finished and self._width:
            self._lines += _render_blocks(finished, self._width, follows=bool(self._lines))
        self._finished += finished

    def lines(self, width: int) -> Lines:
        """Return the whole text, no line wider than `width` cells."""
        width = max(width, NARROWEST)
        if width != self._width:
            self._width = width
            self._lines = _render_blocks(self._finished, width, follows=False)
        return self._lines + _render_blocks(
            markdown_parser().parse(self._growing.rest), width, follows=bool(self._lines)
        )


def _render_blocks(tokens: Sequence[Token], width: int, *, follows: bool) -> Lines:
    lines: Lines = []
    for node in SyntaxTreeNode(tokens).children:
        if lines or follows:
            lines.append(Content(""))
        lines += _block(node, width)
    return lines


def _blocks(nodes: Sequence[SyntaxTreeNode], width: int, *, tight: bool) -> Lines:
    lines: Lines = []
    for node in nodes:
        if lines and not tight:
            lines.append(Content(""))
        lines += _block(node, width)
    return lines


def _block(node: SyntaxTreeNode, width: int) -> Lines:
    draw = _BLOCKS.get(node.type)
    if draw is not None:
        return draw(node, max(width, NARROWEST))
    return Content(node.content).wrap(width) if node.content else _blocks(node.children, width, tight=False)


def _paragraph(node: SyntaxTreeNode, width: int) -> Lines:
    return _inline(node).wrap(width)


def _heading(node: SyntaxTreeNode, width: int) -> Lines:
    style = "bold underline" if node.tag in ("h1", "h2") else "bold"
    return _inline(node).stylize(f"{style} $text-accent").wrap(width)


def _bullets(node: SyntaxTreeNode, width: int) -> Lines:
    bullet = BULLETS[min(_depth(node), len(BULLETS) - 1)]
    return _items(node, [f"{bullet} "] * len(node.children), width)


def _numbers(node: SyntaxTreeNode, width: int) -> Lines:
    first = int(node.attrs.get("start", 1))
    return _items(node, [f"{first + at}. " for at in range(len(node.children))], width)


def _items(node: SyntaxTreeNode, signs: list[str], width: int) -> Lines:
    indent = max((len(sign) for sign in signs), default=0)
    lines: Lines = []
    for sign, item in zip(signs, node.children, strict=True):
        # The parser hides the paragraphs of a list whose items stand close together.
        tight = all(child.hidden for child in item.children if child.type == "paragraph")
        if lines and not tight:
            lines.append(Content(""))
        inside = _blocks(item.children, width - indent, tight=tight) or [Content("")]
        lines.append(Content.styled(sign.rjust(indent), "$text-accent") + inside[0])
        lines += [Content(" " * indent) + line for line in inside[1:]]
    return lines


def _depth(node: SyntaxTreeNode) -> int:
    depth, parent = 0, node.parent
    while parent is not None:
        depth += parent.type in ("bullet_list", "ordered_list")
        parent = parent.parent
    return depth


def _quote(node: SyntaxTreeNode, width: int) -> Lines:
    bar = Content.styled("▌ ", QUIET)
    return [bar + line for line in _blocks(node.children, width - 2, tight=False)]


def _code(node: SyntaxTreeNode, width: int) -> Lines:
    text = node.content.expandtabs(4).rstrip("\n")
    language = node.info.split()[0] if node.info.strip() else ""
    colored = highlight(text, language=language) if language and len(text) < MAX_CODE else Content(text)
    bar = Content.styled("│ ", QUIET)
    return [bar + part for line in colored.split("\n", allow_blank=True) for part in _wrap(line, width - 2)]


def _wrap(line: Content, width: int) -> Lines:
    return line.fold(max(width, NARROWEST)) if line.cell_length > width else [line]


def _rule(_: SyntaxTreeNode, width: int) -> Lines:
    return [Content.styled("─" * width, QUIET)]


def _table(node: SyntaxTreeNode, width: int) -> Lines:
    rows = [[_inline(cell) for cell in row.children] for part in node.children for row in part.children]
    widths = [max(row[at].cell_length for row in rows) for at in range(len(rows[0]))]
    room = max(width - len(CELL_SEPARATOR) * (len(widths) - 1), len(widths))
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    lines = _row([cell.stylize("bold") for cell in rows[0]], widths)
    lines.append(Content.styled("─┼─".join("─" * cell for cell in widths), QUIET))
    for row in rows[1:]:
        lines += _row(row, widths)
    return lines


def _row(cells: list[Content], widths: list[int]) -> Lines:
    wrapped = [cell.wrap(max(width, 1)) or [Content("")] for cell, width in zip(cells, widths, strict=True)]
    separator = Content.styled(CELL_SEPARATOR, QUIET)
    lines = []
    for at in range(max(map(len, wrapped))):
        parts = [cell[at] if at < len(cell) else Content("") for cell in wrapped]
        padded = [part.pad_right(max(width - part.cell_length, 0)) for part, width in zip(parts, widths, strict=True)]
        lines.append(separator.join(padded).rstrip())
    return lines


def _inline(node: SyntaxTreeNode) -> Content:
    return Content("").join([_span(child) for inline in node.children for child in inline.children])


def _span(node: SyntaxTreeNode) -> Content:
    match node.type:
        case "hardbreak" | "softbreak":
            return Content("\n")
        case "code_inline":
            return Content.styled(node.content, "$text-warning")
        case "link":
            inside = Content("").join([_span(child) for child in node.children])
            target = str(node.attrs.get("href", ""))
            leads = target if HAS_SCHEME.match(target) else None  # a path leads nowhere from a terminal
            shown = inside.stylize(Style(underline=True, link=leads))
            return shown if inside.plain in target or target in inside.plain else shown + Content(f" ({target})")
        case "image":
            return Content(f"[{node.content}] ({node.attrs.get('src', '')})")
        case _ if node.children:
            inside = Content("").join([_span(child) for child in node.children])
            return inside.stylize(_STYLES.get(node.type, ""))
        case _:
            return Content(node.content.replace("\t", "    "))


_BLOCKS: Mapping[str, Callable[[SyntaxTreeNode, int], Lines]] = {
    "paragraph": _paragraph,
    "heading": _heading,
    "bullet_list": _bullets,
    "ordered_list": _numbers,
    "blockquote": _quote,
    "fence": _code,
    "code_block": _code,
    "hr": _rule,
    "table": _table,
}
