#!/usr/bin/env python3
"""Drives the page of a server that a test has prepared.

    drive.py PORT GROUPS HOSTILE-ID PORT-WITH-TOKEN TOKEN

The first server has GROUPS groups, one of them with members, `readers`, and one with a hostile id. CHROMIUM
is the browser's command; the pictures go to the directory PICTURES."""

import os
import pathlib
import sys
import tempfile

from browser import Browser

ROWS = "document.querySelectorAll('#view tbody tr').length"
DRAWN = "document.documentElement.dataset.drawn === '{}'"
CAPTION = "document.querySelector('caption').textContent"
FOCUS = "document.activeElement.dataset.key || document.activeElement.id"
NAMED_ROLES = {"button", "link", "searchbox", "textbox", "combobox", "table", "region", "image",
               "navigation", "search", "form", "meter"}

# The ratio of the luminances of a text and of its background.
CONTRAST = """(() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = color => {
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map(it => it / 255)
      .map(it => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const under = element => {
    for (let it = element; it; it = it.parentElement) {
      const color = getComputedStyle(it).backgroundColor;
      if (color !== "rgba(0, 0, 0, 0)") return color;
    }
    return "white";
  };
  const ratio = element => {
    const [a, b] = [light(getComputedStyle(element).color), light(under(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const found = [...document.querySelectorAll("a, td, th, dt, dd, p, h1, h2, caption, label, button")];
  return Math.min(...found.filter(it => it.textContent && !it.disabled).map(ratio));
})()"""


class Story:
    """The steps on one browser."""

    def __init__(self, browser: Browser, pictures: pathlib.Path):
        self.browser, self.pictures = browser, pictures

    def check(self, holds, words: str) -> None:
        if not holds:
            raise self.browser.failure(words)

    def is_sound(self, name: str) -> None:
        """Checks that apply to each page: no errors, names for screen readers, contrast, width."""
        browser = self.browser
        self.check(not browser.take_errors(), f"{name}: errors")
        nodes = browser.nodes()
        nameless = [role for role, text in nodes if role in NAMED_ROLES and not text]
        self.check(not nameless, f"{name}: without a name: {nameless}")
        # A region without a name does not count as a region.
        regions = sum(role == "region" for role, _ in nodes)
        wanted = browser.evaluate("document.querySelectorAll('.scroll').length")
        self.check(regions == wanted, f"{name}: {regions} of {wanted} regions")
        for scheme in ["dark", "light"]:
            browser.scheme(scheme)
            ratio = browser.evaluate(CONTRAST)
            self.check(ratio >= 4.5, f"{name}, {scheme}: contrast {ratio}")
            browser.picture(self.pictures / f"{name}-{scheme}.png")
        for width in [390, 500, 1900]:
            browser.width(width)
            too_wide = browser.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth")
            browser.picture(self.pictures / f"{name}-{width}.png")
            self.check(too_wide <= 0, f"{name}, {width} wide: too wide by {too_wide}")
        browser.width(1280)

    def overview(self, address: str) -> None:
        browser = self.browser
        browser.open(address)
        browser.until(DRAWN.format("overview"))
        words = browser.evaluate("document.querySelector('#view').innerText")
        for part in ["No trouble. The 2 shards serve clients.", "Version 0.", "orders"]:
            self.check(part in words, f"{part!r} is there")
        heads = browser.evaluate("[...document.querySelectorAll('th')].map(it => it.textContent).join()")
        self.check(heads.startswith("Group,Lag,"), f"lag comes second: {heads}")
        self.is_sound("overview")
        # Texts that a shard reports about itself are shown, and not interpreted as markup.
        browser.evaluate("""(() => {
          const there = window.fetch;
          window.fetch = async (path, options) => {
            const answer = await there(path, options);
            if (!path.endsWith("/shards")) return answer;
            const body = await answer.json();
            body.shards[1].obstacles = ["<b>the disk</b> does not answer"];
            return new Response(JSON.stringify(body));
          };
        })()""")
        trouble = "document.querySelector('.trouble.there')"
        browser.until(trouble, "trouble is shown")
        words = browser.evaluate(f"{trouble}.innerText")
        self.check("Shard 1: <b>the disk</b> does not answer" in words, words)
        first = browser.evaluate("document.querySelector('#view h2').nextElementSibling.className")
        self.check(first == "trouble there", "trouble comes first")
        self.is_sound("trouble")

    def shards(self, address: str) -> None:
        self.browser.open(address + "#/shards")
        self.browser.until(DRAWN.format("shards"))
        self.check(self.browser.evaluate(ROWS) == 2, "two shards")
        self.browser.until("document.querySelector('meter')", "how busy a shard is")
        self.is_sound("shards")

    def search(self, address: str, groups: int) -> float:
        browser = self.browser
        browser.open(address + "#/groups")
        browser.until(DRAWN.format("groups"))
        found, _ = browser.until(f"{CAPTION}.includes('groups') && {CAPTION}")
        self.check(found.startswith(f"{groups:,} of {groups:,} groups"), found)
        self.check(browser.evaluate(ROWS) == 50, "a page of groups")
        nodes = browser.evaluate("document.querySelectorAll('*').length")
        self.check(nodes < 2_000, f"{nodes} elements")
        self.is_sound("groups")
        browser.press("/", 191, "/")
        self.check(browser.evaluate(FOCUS) == "search", "the search has the focus")
        browser.type("group-00007")
        _, took = browser.until(f"{CAPTION}.startsWith('10 of')", "ten are found")
        self.check(browser.evaluate(FOCUS) == "search", "it keeps the focus")
        self.check("search=group-00007" in browser.evaluate("location.hash"), "the address has it")
        return took

    def keyboard(self, address: str) -> None:
        browser = self.browser
        browser.open(address + "#/groups?sort=id")
        browser.until(f"{ROWS} === 50")
        first = browser.evaluate("document.querySelector('#view tbody a').textContent")
        browser.evaluate("document.querySelector('[data-key=next]').focus()")
        browser.press("Enter", 13, "\r")
        browser.until(f"document.querySelector('#view tbody a').textContent !== {first!r}")
        browser.until("document.activeElement.dataset.key === 'next'", "the focus stays")
        order = "document.querySelector('th[aria-sort=ascending]').textContent"
        self.check(browser.evaluate(order).startswith("Group"), "the order is told")
        browser.open(address + "#/groups?search=readers")
        browser.until(f"{ROWS} === 1")
        browser.evaluate("document.querySelector('#view tbody a').focus()")
        browser.press("Enter", 13, "\r")
        browser.until(DRAWN.format("group"))
        self.check(browser.evaluate("location.hash") == "#/group/readers", "Enter opens it")

    def group(self, address: str) -> None:
        browser = self.browser
        browser.open(address + "#/topics")
        browser.until(DRAWN.format("topics"))
        browser.open(address + "#/groups/readers")
        browser.until(DRAWN.format("group"), "a name behind groups opens the group")
        browser.open(address + "#/group/readers")
        browser.until("document.querySelectorAll('svg rect').length >= 1", "a timeline")
        words = browser.evaluate("document.querySelector('#view').innerText")
        for part in ["1 member joined (m-1)", "consumer", "orders: 0–3", "Rebalances", "Partitions"]:
            self.check(part in words, f"{part!r} is there")
        label = browser.evaluate("document.querySelector('svg').getAttribute('aria-label')")
        self.check("rebalances since" in label, label)
        self.is_sound("group")

    def hostile(self, address: str, hostile: str) -> None:
        browser = self.browser
        browser.open(address + "#/groups?search=%3Cimg")
        browser.until(f"{ROWS} === 1 && {CAPTION}.startsWith('1 of')")
        self.check("<img" in browser.evaluate("document.querySelector('#view a').textContent"),
                   "the name is text")
        browser.evaluate("document.querySelector('#view a').click()")
        browser.until(DRAWN.format("group"))
        browser.until("document.querySelector('h2').textContent.includes('<img')")
        self.check(browser.evaluate("document.querySelectorAll('#view img, #view script').length") == 0,
                   "no markup came of it")
        self.check(browser.evaluate("window.pwned === undefined"), "nothing ran")
        self.check("\\u202e" in browser.evaluate("document.querySelector('h2').textContent"),
                   "what is invisible is shown")
        decoded = browser.evaluate("decodeURIComponent(location.hash.slice('#/group/'.length))")
        self.check(decoded == hostile, repr(decoded))
        self.is_sound("hostile")

    def policy(self, address: str) -> None:
        browser = self.browser
        browser.open(address)
        browser.until(DRAWN.format("overview"))
        inline = "const it = document.createElement('script'); it.text = 'window.pwned = 1';"
        for attempt in [f"{inline} document.body.append(it)", "document.body.innerHTML = '<b>x</b>'"]:
            browser.evaluate("(() => { try { " + attempt + " } catch { } })()")
        self.check(browser.evaluate("window.pwned === undefined && !document.querySelector('b')"),
                   "the policy allows no other script, and no markup")
        refused = browser.evaluate("fetch('//example.org/').then(() => false, () => true)")
        self.check(refused and browser.take_errors(), "it loads nothing from elsewhere")

    def others(self, address: str) -> None:
        for page, words in [("topics", "orders"), ("topic/orders", "cleanup.policy"),
                            ("configs?search=admin", "(secret)")]:
            self.browser.open(f"{address}#/{page}")
            self.browser.until(f"document.querySelector('#view').innerText.includes({words!r})")
            self.is_sound(page.split("?")[0].replace("/", "-"))

    def records(self, address: str) -> None:
        browser = self.browser
        browser.open(address + "#/topic/values")
        browser.until("document.querySelector('#view').innerText.includes('Records of partition 0')")
        cells = browser.evaluate("[...document.querySelectorAll('.content')].map(it => it.textContent)")
        for value in ["value 29", '{\n "id": 7,\n "name": "a"\n}', '{"id":12345678901234567890}',
                      "<img src=x onerror='window.pwned=1'>"]:
            self.check(value in cells, f"{value!r} is in {cells}")
        digits = browser.evaluate("document.querySelector('#view code').textContent")
        self.check(digits == "00 01 fe ff", digits)
        self.check(browser.evaluate("window.pwned === undefined && !document.querySelector('#view img')"),
                   "a record is no markup")
        self.is_sound("records")
        browser.evaluate("document.querySelector(\"[data-key='records Earlier']\").focus()")
        browser.press("Enter", 13, "\r")
        browser.until("[...document.querySelectorAll('.content')].some(it => it.textContent === 'value 0')",
                      "earlier records are shown")
        self.check("at=0" in browser.evaluate("location.hash"), "the address has the offset")
        # A timestamp that is no date, and a partition whose records cannot be read.
        browser.evaluate("""(() => {
          const there = window.fetch;
          window.fetch = async (path, options) => {
            const answer = await there(path, options);
            if (!path.includes("/records/")) return answer;
            if (path.includes("from=0")) {
              const body = await answer.json();
              body.records[0].at = 9e15;
              body.records[0].value.text = "no date";
              return new Response(JSON.stringify(body));
            }
            return new Response(JSON.stringify({ error: "the partition is offline" }), { status: 503 });
          };
        })()""")
        browser.until("document.querySelector('#view').innerText.includes('no date')")
        browser.evaluate("document.querySelector(\"[data-key='records Last']\").click()")
        browser.until("document.querySelector('#view').innerText.includes('the partition is offline')")
        words = browser.evaluate("document.querySelector('#view').innerText")
        self.check("cleanup.policy" in words, "the rest of the topic is shown")

    def token(self, address: str, token: str) -> None:
        browser = self.browser
        browser.open(address + "#/groups")
        browser.until("document.querySelector('input[name=token]')", "it asks for the token")
        browser.take_errors()
        self.is_sound("token")
        browser.evaluate("document.querySelector('input[name=token]').focus()")
        browser.type("wrong-token-of-some-length")
        browser.press("Enter", 13, "\r")
        browser.evaluate("new Promise(done => setTimeout(done, 200))")
        self.check(browser.evaluate("document.querySelector('input[name=token]')") is not None,
                   "a wrong one opens nothing")
        browser.evaluate("document.querySelector('input[name=token]').value = ''")
        browser.evaluate("document.querySelector('input[name=token]').focus()")
        browser.type(token)
        browser.press("Enter", 13, "\r")
        browser.until(f"{CAPTION}.includes('groups')")


def main() -> None:
    port, groups, hostile, other_port, token = sys.argv[1:]
    address = f"http://127.0.0.1:{port}/"
    pictures = pathlib.Path(os.environ["PICTURES"])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(os.environ["CHROMIUM"], profile)
        try:
            story = Story(browser, pictures)
            story.overview(address)
            story.shards(address)
            took = story.search(address, int(groups))
            story.keyboard(address)
            story.group(address)
            story.hostile(address, hostile)
            story.policy(address)
            story.others(address)
            story.records(address)
            story.token(f"http://127.0.0.1:{other_port}/", token)
        finally:
            browser.close()
    print(f"the page: all well; a search among {int(groups):,} groups took {took * 1000:.0f} ms")


if __name__ == "__main__":
    main()
