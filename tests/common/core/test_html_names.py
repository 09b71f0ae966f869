"""The table of HTML's names is loaded by the first reference to one, and then all is as without us."""

import html
import subprocess
import sys

TEXTS = ["&eacute;", "&notit;", "&noname;", "&#x27;&amp", "&NotEqualTilde;", "&", "a & b"]


def test_the_table_is_loaded_by_the_first_reference_to_a_name() -> None:
    code = (
        "import sys\nfrom goclaw.common.core.html_names import import_html\nhtml = import_html()\n"
        "assert html.escape('<') == '&lt;' and html.unescape('a & b &#x27;') == \"a & b '\"\n"
        "assert 'html.entities' not in sys.modules\n"
        f"print([html.unescape(text) for text in {TEXTS}])\n"
        "import html.entities\nassert dict(html._html5) == html.entities.html5 and len(html._html5) == 2231\n"
        "assert import_html() is html"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{[html.unescape(text) for text in TEXTS]}\n", "")
