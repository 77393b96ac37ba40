"""The page's renderer of Markdown in a headless Chromium, without a server: what it makes of what models write, of
what they write in parts, and of what was written to break out of it. markdown-it-py has the right values."""

import pathlib
import random
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tests/e2e"))
try:
    from browser import start_browser
    from markdown_it import MarkdownIt
except ImportError as error:
    print(f"skipped: {error}; tools/test installs it")
    sys.exit(77)

SCRIPTS = "".join((ROOT / f"server/surfaces/web/page/{name}.js").read_text() for name in ("elements", "base", "inline", "markdown"))
# Every element and attribute that may ever come of a text.
ALLOWED = {"DIV": {"class", "tabindex", "role", "aria-label"}, "P": set(), "BR": set(), "HR": set(), "EM": set(),
           "STRONG": set(), "DEL": set(), "CODE": set(), "PRE": {"tabindex"}, "BLOCKQUOTE": set(), "UL": set(),
           "OL": {"start"}, "LI": set(), "H4": {"class"}, "H5": {"class"}, "H6": {"class"}, "SPAN": set(),
           "A": {"href", "title", "target", "rel"}, "TABLE": set(), "THEAD": set(), "TBODY": set(), "TR": set(),
           "TH": {"class"}, "TD": {"class"}, "BUTTON": {"class", "type"}}
HELPERS = SCRIPTS + r"""
function render(text, size) {
  const root = document.createElement("div");
  const markdown = new Markdown(root);
  for (let i = 0; i < text.length; i += size) markdown.append(text.slice(i, i + size));
  const open = root.innerHTML;
  markdown.finish();
  return {root, open};
}
// As other renderers say it: without what is round code, tables and links.
function plainHtml(root) {
  for (const node of root.querySelectorAll(".code")) {
    const pre = node.querySelector("pre");
    pre.removeAttribute("tabindex");
    node.replaceWith(pre);
  }
  for (const node of root.querySelectorAll(".table")) node.replaceWith(node.firstChild);
  for (const node of root.querySelectorAll("a")) {
    for (const name of ["title", "target", "rel"]) node.removeAttribute(name);
  }
  for (const node of root.querySelectorAll("li > p")) node.replaceWith(...node.childNodes);
  for (const node of root.querySelectorAll("[class]")) node.removeAttribute("class");
  for (const node of root.querySelectorAll("tbody:empty")) node.remove();
  return root.innerHTML;
}
"""
INLINE = ["*", "**", "***", "_", "__", "a", "b c", " ", "`", "``", "~~", "[", "](https://x.y/)", "](u)", "\\*", "\\", "(",
          ")", "!", ".", "é"]
BLOCKS = ["a\n", "b c\n", "\n", "\n", "- ", "* ", "1. ", "2) ", "> ", "# ", "    ", "  ", "   ", "|a|b|\n", "|-|:-:|\n",
          "---\n", "***\n", "x **y** z\n", "+ q\n"]
HOSTILE = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<svg/onload=alert(1)>", "</div></article><h1>x</h1>",
    "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](java\tscript:alert(1))", "[x]( javascript:alert(1))",
    "[x](<javascript:alert(1)>)", "[x](data:text/html,<script>alert(1)</script>)", "[x](vbscript:x)", "[x](//evil.example)",
    "[x](/v1/models)", "[x](blob:https://x.y/z)", "<javascript:alert(1)>", "javascript:alert(1)", "[x](file:///etc/passwd)",
    "![x](https://x.y/p.png \" onload=alert(1) \")", "[x](https://x.y/\"onmouseover=\"alert(1))", "[<b>x</b>](https://x.y/<b>)",
    "`<b>x</b>`", "```<b>\" onclick=\"x\n<script>\n```", "``` \"><script>\nx", "|<b>|\n|-|\n|<img src=x>|", "# <h1 onclick=x>",
    "&lt;script&gt;", "&#60;img src=x&#62;", "https://x.y/<script>", "<https://x.y/\"><script>", "1. <iframe src=/>", "> <style>*{}",
    "<br onclick=alert(1)>", "<br/ style=x>", "\u202e[x](https://x.y/)", "\0<b>\ufffe", "[a](https://x.y/)](javascript:alert(1))",
    "[![x](javascript:alert(1))](https://x.y/)", "[x][1]\n\n[1]: javascript:alert(1)", "<a href=\"https://x.y/\">x</a>",
]


class MarkdownPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.get("data:text/html,<body>")

    def script(self, text, *arguments):
        return self.browser.execute_script(HELPERS + text, *arguments)

    def rendered(self, texts, size=1 << 20):
        return self.script("return arguments[0].map((text) => plainHtml(render(text, arguments[1]).root));", texts, size)

    def check(self, *cases):
        got = self.rendered([text for text, _ in cases])
        for (text, want), html in zip(cases, got):
            self.assertEqual(html, want, text)

    def test_what_models_write(self):
        self.check(
            ("a **b** *c* `d` ~~e~~", "<p>a <strong>b</strong> <em>c</em> <code>d</code> <del>e</del></p>"),
            ("one\ntwo", "<p>one<br>two</p>"),
            ("# A\n### B ##", "<h4>A</h4><h6>B</h6>"),
            ("```py\nif a < b:\n\tc()\n```\nd", "<pre><code>if a &lt; b:\n\tc()</code></pre><p>d</p>"),
            ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
            ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
            ("1. a\n   ```\nb\n   ```\n2. c", "<ol><li>a<pre><code>b</code></pre></li><li>c</li></ol>"),
            ("- [ ] a\n- [x] b", "<ul><li>☐ a</li><li>☑ b</li></ul>"),
            ("> a\n> b\n\nc", "<blockquote><p>a<br>b</p></blockquote><p>c</p>"),
            ("|a|b|\n|:-|-:|\n|1|`x\\|y`|\n\nc", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td>"
             "<td><code>x|y</code></td></tr></tbody></table><p>c</p>"),
            ("a | b\n--|--\n1 | 2<br>3", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td>"
             "<td>2<br>3</td></tr></tbody></table>"),
            ("see https://x.y/a_(b)_c, and", '<p>see <a href="https://x.y/a_(b)_c">https://x.y/a_(b)_c</a>, and</p>'),
            ("[a *b*](https://x.y/ \"t\")", '<p><a href="https://x.y/">a <em>b</em></a></p>'),
            ("![pic](https://x.y/z.png)", '<p><a href="https://x.y/z.png">pic</a></p>'),
            ("**「中」**文", "<p><strong>「中」</strong>文</p>"),
            ("snake_case_name 2 * 3 * 4", "<p>snake_case_name 2 * 3 * 4</p>"),
            ("5", "<p>5</p>"))

    def test_links_lead_away_safely(self):
        link = self.script("""const {root} = render("[a](HTTP://X.y)", 99); const a = root.querySelector("a");
            return [a.href, a.target, a.rel, a.title];""")
        self.assertEqual(link, ["http://x.y/", "_blank", "noopener noreferrer", "http://x.y/"])

    def test_hostile_texts_are_text(self):
        """Whatever stands beside what, in whole and in parts, nothing but the elements that are meant comes of it."""
        rng = random.Random(3)
        texts = HOSTILE + ["".join(rng.choices(HOSTILE + INLINE + BLOCKS, k=rng.randint(2, 8))) for _ in range(400)]
        found = self.script("""
            const [texts, allowed] = arguments;
            const wrong = [];
            for (const text of texts) {
              for (const size of [1, 7, 1e6]) {
                for (const node of render(text, size).root.querySelectorAll("*")) {
                  const names = allowed[node.nodeName];
                  if (!names) wrong.push([text, node.nodeName]);
                  for (const {name} of names ? node.attributes : []) if (!names.includes(name)) wrong.push([text, name]);
                  if (node.nodeName === "A" && !/^https?:$/.test(node.protocol)) wrong.push([text, node.href]);
                }
              }
            }
            return wrong;""", texts, {name: sorted(names) for name, names in ALLOWED.items()})
        self.assertEqual(found, [])
        shown = self.script("return arguments[0].map((text) => render(text, 5).root.textContent);", HOSTILE[:4])
        self.assertEqual(shown, HOSTILE[:4])

    def test_is_commonmark(self):
        """Random texts, against markdown-it: but for what is meant otherwise (README.md of the page)."""
        reference = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
        reference.disable("lheading")
        rng = random.Random(5)
        texts = ["".join(rng.choices(INLINE, k=rng.randint(1, 14))).strip(" ") for _ in range(2000)]
        # Addresses are links here, in brackets or not; a list needs a text.
        texts = [text for text in texts if not re.search(r"^[*]+( |$)|^```|\]\(u\)|https\S*[*_~`\\]|!\[|~~~", text)]
        wants = [reference.render(text) for text in texts]
        mine = self.script("""return arguments[0].map((text) => {
            const {root} = render(text, 1e6);
            for (const a of root.querySelectorAll("a")) if (a.textContent.startsWith("https://x.y/")) a.replaceWith(...a.childNodes);
            root.normalize();
            return plainHtml(root);
          });""", texts)
        for text, want, html in zip(texts, wants, mine):
            want = want.strip().replace("<s>", "<del>").replace("</s>", "</del>").replace("&quot;", '"').replace("<br />\n", "<br>").replace(" />", ">")
            self.assertEqual(re.sub(r"\s+</p>", "</p>", html), re.sub(r"\s+</p>", "</p>", want), repr(text))

    def test_parts_make_the_same_as_the_whole(self):
        rng = random.Random(4)
        texts = ["".join(rng.choices(BLOCKS + INLINE + ["```\n", "~~~x\n", "\t", "\r\n"], k=rng.randint(1, 20)))
                 for _ in range(800)]
        long = ["word " * 3000, "**a** `b` " * 900 + "\n\nc", "- x\n" * 500, "```\n" + "x" * 9000, "# " + "a " * 3000]
        for some, sizes in ((texts, (1, 3)), (long, (331, 1000))):
            whole = self.rendered(some)
            for size in sizes:
                for text, want, html in zip(some, whole, self.rendered(some, size)):
                    self.assertEqual(html, want, repr(text[:200]))

    def test_what_has_begun_is_shown_as_what_it_becomes(self):
        """Nothing is first shown as signs and then as what they mean."""
        text = ("## Title\n\nSome **bold** words and `code`, [a link](https://x.y/).\n\n- one\n- two\n\n| a | b |\n|---|---|\n"
                "| 1 | 2 |\n\n```py\nx = 1\n```\n\n1. first\n\n---\n\n> said\n")
        states = self.script("""
            const root = document.createElement("div");
            const markdown = new Markdown(root);
            return [...arguments[0]].map((char) => {
              markdown.append(char);
              return [...root.querySelectorAll("p, li, td, th, h5, blockquote, code")].map((node) => node.textContent).join("\\n");
            });""", text)
        for state in states:
            self.assertNotRegex(state, r"[*`#\[\]|>]|^-|--", state)

    def test_blocks_that_are_whole_stay(self):
        changed = self.script("""
            const root = document.createElement("div");
            const markdown = new Markdown(root);
            markdown.append("# A\\n\\npara **b**\\n\\n- c\\n- d\\n\\n```\\ncode\\n```\\n\\n");
            const before = [...root.querySelectorAll("*")];
            const observer = new MutationObserver(() => {});
            for (const node of root.children) observer.observe(node, {subtree: true, childList: true, characterData: true});
            for (const part of ["more", " of **it", "**\\n- x", "\\n\\n|a|", "b|\\n|-|-|\\n|1", "|2|\\n"]) markdown.append(part);
            markdown.finish();
            return [observer.takeRecords().length, before.every((node) => root.contains(node))];""")
        self.assertEqual(changed, [0, True])

    def test_cost_grows_with_the_length_alone(self):
        """What is looked at anew for each part is bounded, whatever the text is: so twice the text is twice the work."""
        patterns = ["*a ", "**a", "[", "[a](", "[](" + " " * 40, "`", "> ", "- ", "1. ", "|a", "a\n", "```\n", "\\", "<br>", "x" * 50]
        most = self.script("""
            const looked = [];
            const parse = InlineParser.prototype.parse;
            return arguments[0].map((pattern) => {
              let most = 0;
              let sum = 0;
              InlineParser.prototype.parse = function () { sum += this.text.length; return parse.call(this); };
              const markdown = new Markdown(document.createElement("div"));
              const text = pattern.repeat(Math.ceil(40000 / pattern.length));
              for (let i = 0; i < text.length; i += 400) {
                sum = 0;
                markdown.append(text.slice(i, i + 400));
                most = Math.max(most, sum);
              }
              markdown.finish();
              InlineParser.prototype.parse = parse;
              return most;
            });""", patterns)
        for pattern, chars in zip(patterns, most):
            self.assertLess(chars, 30000, pattern)

    def test_nothing_is_nested_without_end(self):
        depths = self.script("""return arguments[0].map((text) => {
            const {root} = render(text, 1000);
            return Math.max(...[...root.querySelectorAll("*")].map((node) => {
              let depth = 0;
              for (; node !== root; node = node.parentNode) ++depth;
              return depth;
            }));
          });""", ["> " * 3000 + "a", "- " * 1000 + "a", "1. " * 1000 + "a", "*_" * 2000 + "a" + "_*" * 2000,
                   "[" * 2000 + "a" + "](https://x.y/)" * 2000])
        self.assertLess(max(depths), 50)


if __name__ == "__main__":
    unittest.main(verbosity=2)
