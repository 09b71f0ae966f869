"""A widget of text lines: only those in view are drawn, and each once while it stays."""

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual
from textual.widget import Widget


class Lined(Widget):
    """Textual draws a whole text anew for each change of it: a long answer that grows would cost more with every word.

    A line that is the same object as before, in the same place, is taken to be unchanged.
    """

    def __init__(self) -> None:
        super().__init__()
        self._strips: dict[int, tuple[Content, int, Style, Strip]] = {}
        """The drawn lines, by place: the line, the width and the style, and the result."""

    def lines(self, width: int) -> Sequence[Content]:
        """The text, no line wider than `width`."""
        raise NotImplementedError

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines of the text at this width."""
        return len(self.lines(width))

    def render(self) -> Content:
        """Return the whole text, from which selections are taken."""
        return Content("\n").join(self.lines(self.content_size.width))

    def render_line(self, y: int) -> Strip:
        """Return one line."""
        width, style = self.content_size.width, self.visual_style
        lines = self.lines(width)
        if y >= len(lines):
            return Strip.blank(width, style.rich_style)
        line, selection = lines[y], self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            start, end = span
            chosen = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            return self._drawn(line.stylize(chosen, start, len(line) if end == -1 else end), y, width, style)
        known = self._strips.get(y)
        if known is None or known[0] is not line or known[1:3] != (width, style):
            known = self._strips[y] = (line, width, style, self._drawn(line, y, width, style))
        return known[3]

    def _drawn(self, line: Content, y: int, width: int, style: Style) -> Strip:
        strips = Visual.to_strips(self, line, width, 1, style, apply_selection=False)
        # The mouse finds the letters that it selects by these offsets.
        return strips[0].apply_offsets(0, y) if strips else Strip.blank(width, style.rich_style)
