"""The words of the code: names of functions that are no verbs, verbs of our own, and odd words of docstrings.

    python -m tests.words          prints the figures, and the commonest words of each kind

The lists were made by comparing this code with that of well-known packages (starlette, httpx, anyio, mcp), where they
hardly occur.
"""

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass, field

from tests import house

_PARTICIPLE = re.compile(
    r"_?(\w+ed|told|said|heard|known|shown|kept|held|sent|found|begun|given|taken|written|made|done|lost|seen|chosen"
    r"|drawn|left|met|paid|read|wanted|got|gone|forgotten|spoken|bound)"
)
_OWN_VERB = re.compile(
    r"(^|_)(take|tell|told|keep|kept|look|see|hold|held|give|given|begin|go|goes|come|let|have|mind|settle|settled|say|said"
    r"|hear|heard|want|wanted)(_|$)"
)
_ODD = re.compile(
    r"\b(for naught|whoever|whose|thereof|Take it that|is told|are told|be told|tells? (of|what|which)"
    r"|what (it|is|was|has|they|he|comes?|a|an|the|this|runs?|stands?) \w+|of which|in which|by which|beside|anew"
    r"|behind|amiss|who (asks|asked|waits|writes|reads|comes|has)|at once|as ever|as long as|are there|is there)\b",
    re.IGNORECASE,
)


@dataclass
class Words:
    """What was counted below a folder."""

    functions: int = 0
    words: int = 0
    """Of all docstrings."""
    participles: Counter[str] = field(default_factory=Counter)
    own_verbs: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)

    @property
    def share_of_participles(self) -> float:
        """Percent of the functions."""
        return 100 * self.participles.total() / self.functions

    @property
    def share_of_own_verbs(self) -> float:
        """Percent of the functions."""
        return 100 * self.own_verbs.total() / self.functions

    @property
    def odd_per_thousand(self) -> float:
        """Odd words of 1,000 words of docstrings."""
        return 1_000 * self.odd.total() / self.words


def count(*folders: str) -> Words:
    """Count the words of all Python files below these folders of the repository."""
    found = Words()
    for path in house.python_files(*folders):
        for node in ast.walk(house.tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.functions += 1
                found.participles[node.name] += bool(_PARTICIPLE.fullmatch(node.name))
                found.own_verbs[node.name] += bool(_OWN_VERB.search(node.name))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                found.words += len(text.split())
                found.odd.update(match[0].lower() for match in _ODD.finditer(text))
    return found


def main() -> None:
    """Print the figures of the product."""
    found = count("goclaw")
    for name, figure, words in (
        ("participles, % of functions", found.share_of_participles, found.participles),
        ("verbs of our own, %", found.share_of_own_verbs, found.own_verbs),
        ("odd words of 1,000", found.odd_per_thousand, found.odd),
    ):
        common = ", ".join(f"{word} {number}" for word, number in words.most_common(40))
        sys.stdout.write(f"{name}: {figure:.1f}\n    {common}\n")


if __name__ == "__main__":
    main()
