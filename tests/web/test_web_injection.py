"""Texts of suites, answers, names, files and addresses are never shown as markup."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from proctor.errors import ProctorError
from proctor.model import Label, Settings
from proctor.safe_text import escape_invisible
from proctor.web.project import Project
from support.web import make_runs, save_suite, serve

pytestmark = [pytest.mark.fuzz, pytest.mark.port]

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page, Route

Browser = Callable[..., AbstractContextManager["Page"]]

CORPUS = Path(__file__).parents[1] / "data" / "injections.txt"
TEXTS: list[str] = [
    json.loads(line) for line in CORPUS.read_text("utf-8").split("\n") if line and not line.startswith("#")
]
SHORT_TEXTS = [text for text in TEXTS if len(text) < 120][::2]
"""Texts for names: only some, as each name adds a suite, a target or a run."""

INSPECT = """async (pages) => {
  const wrong = [];
  const plain = (text) => text.replace(/[\\s\\p{C}]/gu, "");
  const never = `[data-hacked], iframe, object, embed, base, plaintext, template, math, foreignObject,
    animate, style, script:not([src="/static/proctor.js"]), link:not([href^="/static/"]),
    meta[http-equiv]:not([content="1"], [content="2"])`;
  const places = ["href", "src", "action", "formaction", "data-live", "srcset", "poster", "xlink:href"];
  for (const [address, texts] of pages) {
    const answer = await fetch(address);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const say = (what) => wrong.push(`${address}: ${what}`);
    if (answer.status >= 500) say(answer.status);
    for (const it of page.querySelectorAll("*")) {
      const tag = it.cloneNode(false).outerHTML.slice(0, 160);
      if (it.matches(never) || (it.localName === "script" && it.textContent)) say(`has ${tag}`);
      for (const {name, value} of it.attributes) {
        if (/^on/i.test(name) || name === "style" || name === "srcdoc") say(`has ${name}: ${tag}`);
        const leads = places.includes(name) && !/^([/?#]|[/?#][^/\\\\].*|data:image.*)$/s.test(value);
        if (leads) say(`leads to ${value}: ${tag}`);
      }
    }
    const fields = [...page.querySelectorAll("[value]")].map((it) => it.getAttribute("value"));
    const text = plain([page.body.textContent, ...fields].join(" "));
    for (const one of texts) if (!text.includes(plain(one))) say(`does not show ${one.slice(0, 80)}`);
  }
  return wrong;
}"""
CANARY = """() => [
  window.hacked, document.title === "hacked", document.querySelector("[data-hacked]")?.outerHTML,
].filter((it) => it)"""


def make_suite(texts: list[str]) -> str:
    """A suite with each text in every field of a case that takes it."""
    lines = [json.dumps({"proctor": 1, "name": "all", "description": texts[0], "split_rule": {"ratio": 0.1}})]
    for number, text in enumerate(texts):
        line = " ".join(text.split())
        row = {
            "id": f"{number} {line[:150]}" if text.isprintable() else f"{number}",
            "input": [{"role": "user", "content": f"{text} {number}", "name": "me"}],
            "expected": text,
            "criteria": text,
            "assertions": [
                {
                    "grader": "contains",
                    "params": {"value": text or "x"},
                    "label": " ".join(text.split())[:80] or "x",
                },
                {"grader": "rubric", "params": {"rubric": text or "x"}},
            ],
            "metadata": {"note": text},
        }
        if line.isprintable() and "," not in line and line:
            row |= {"tags": [line[:60]], "category": line[:60]}
        lines.append(json.dumps(row))
    return "\n".join(lines)


def make_scripts(texts: list[str], suite: str) -> tuple[str, str]:
    """The scripts of a target that answers with each text, and of a judge that gives it as its reason."""
    ids = [json.loads(line)["id"] for line in suite.splitlines()[1:]]
    answers = {key: f"{text}\n<think>{text}</think>" for key, text in zip(ids, texts, strict=True)}
    reasons = {key: json.dumps({"score": 2, "reason": text}) for key, text in zip(ids, texts, strict=True)}
    return json.dumps(answers), json.dumps(reasons)


def is_unicode(text: str) -> bool:
    return text.encode("utf-8", "ignore").decode("utf-8") == text


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A server over a store that is full of hostile texts."""
    folder = tmp_path_factory.mktemp("hostile")
    texts = [text for text in TEXTS if is_unicode(text) and text.strip()]
    suite = make_suite(texts)
    answers, reasons = make_scripts(texts, suite)
    targets = [{"name": "judge", "provider": "scripted", "file": "judge.jsonl"}]
    names = []
    for text in SHORT_TEXTS:
        name = " ".join(text.split())
        if name and name.isprintable() and name not in names:
            names.append(name)
            targets.append(
                {"name": name, "provider": "scripted", "file": "all.jsonl", "judge_target": "judge"}
            )
    target_file = json.dumps({"targets": targets}, ensure_ascii=False)
    for name, text in {"all.jsonl": answers, "judge.jsonl": reasons, "targets.yaml": target_file}.items():
        (folder / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PROCTOR_KEYS", str(folder / "keys"))
        site = Project(folder / ".proctor" / "proctor.db", folder=folder)
        save_suite(site, "all", suite)
        save_suite(site, "all", make_suite(texts[1:] + texts[:1]))
        for text in SHORT_TEXTS:
            with suppress(ProctorError, UnicodeError):  # the text is not a valid name of a suite
                save_suite(site, text, '{"id": "a", "input": "Say 4", "expected": "4"}')
        who = names[0], names[1]
        first, second = make_runs(site, "all@v1", *who, settings=Settings(concurrency=8))
        with site.open_store() as store:
            saved = [version.suite.name for version in store.versions() if version.suite.name != "all"]
            for number, text in enumerate(texts[:40]):
                label = Label(
                    case_id=json.loads(suite.splitlines()[number + 1])["id"],
                    repeat=0,
                    run=first.id,
                    passed=number % 2 == 0,
                    by=" ".join(text.split())[:80] or "x",
                    note=text,
                )
                store.add_label(label)
        with serve(site) as server:
            yield SimpleNamespace(
                server=server,
                texts=texts,
                names=names,
                suites=saved,
                first=first.id,
                second=second.id,
                who=who,
            )


@pytest.fixture
def guarded_page(browser: Browser, world: SimpleNamespace) -> Iterator[Page]:
    """A page that may open no dialog and send no request to another host."""
    with browser(world.server.url, but="status of 4") as page:
        dialogs, urls = list[str](), list[str]()

        def refuse(dialog: Dialog) -> None:
            dialogs.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", refuse)
        page.on("request", lambda request: urls.append(request.url))
        page.goto("/login")
        yield page
        own = (f"{world.server.url}/", "data:", "about:")
        assert dialogs == []
        assert [url for url in urls if not url.startswith(own)] == []


def visit(page: Page, address: str) -> None:
    """Opens a page as people do, so that every script that could run has run."""
    page.goto(address)
    page.wait_for_load_state()
    assert page.evaluate(CANARY) == [], address
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def check(page: Page, pages: list[list[Any]]) -> None:
    """Checks that pages have only elements that Proctor writes, and show these texts literally."""
    wrong = page.evaluate(INSPECT, [[url, list(map(escape_invisible, texts))] for url, texts in pages])
    assert not wrong, "\n".join(wrong)


def test_the_check_finds_what_is_not_escaped(browser: Browser, world: SimpleNamespace) -> None:
    shape = r"<(script|img|svg|iframe|body|base|style|object|meta)\b"
    hostile = [text for text in TEXTS if re.match(shape, text)]
    assert len(hostile) > 12

    def answer(route: Route) -> None:
        route.fulfill(body=hostile[int(route.request.url.partition("?")[2])])

    with browser(world.server.url, but="Content Security Policy|status of 4") as page:
        page.goto("/login")
        page.route("**/hostile?*", answer)
        for number, text in enumerate(hostile):
            assert page.evaluate(INSPECT, [[f"/hostile?{number}", []]]), text
        page.route("**/plain", lambda route: route.fulfill(body="<p>a &lt;b&gt;</p>"))
        assert page.evaluate(INSPECT, [["/plain", ["a <b>"]]]) == []
        assert len(page.evaluate(INSPECT, [["/plain", ["not there"]]])) == 1


def test_a_run_and_each_of_its_cases(guarded_page: Page, world: SimpleNamespace) -> None:
    run = f"/runs/{world.first}"
    visit(guarded_page, run)
    guarded_page.get_by_role("button", name="Reveal the holdout").click()
    pages = [[f"{run}/cases/{place}", [text]] for place, text in enumerate(world.texts)]
    markdown_pages = [[f"{run}/cases/{place}?view=markdown", []] for place in range(0, len(world.texts), 4)]
    check(guarded_page, [[run, []], *pages, *markdown_pages])
    for place in range(0, len(world.texts), 30):
        visit(guarded_page, f"{run}/cases/{place}")


def test_all_other_pages_of_stored_things(guarded_page: Page, world: SimpleNamespace) -> None:
    pair = urlencode({"run": [world.first, world.second]}, doseq=True)
    for address in ("/suites", "/runs", "/run", "/suite?name=all&version=v1", f"/compare?{pair}"):
        visit(guarded_page, address)
    guarded_page.goto("/trends")
    expect(guarded_page.get_by_text(world.who[1]).first).to_be_visible()  # a slow page reloads by itself
    assert guarded_page.evaluate(CANARY) == []
    pages = [
        ["/suites", []],
        *([f"/suites?{urlencode({'find': name})}", [name]] for name in world.suites[::3]),
        ["/runs", list(world.who)],
        ["/run", world.names],
        [f"/run?{urlencode({'suite': 'all', 'target': world.names[2]})}", []],
        ["/suite?name=all&version=v1", []],
        *(
            [f"/suite?name=all&version=v1&case={place}", [text]]
            for place, text in list(enumerate(world.texts))[::8]
        ),
        ["/suite/diff?name=all&old=v1&new=v2", []],
        ["/suites/new?name=all", []],
        ["/compare", []],
        [f"/compare?{pair}", list(world.who)],
        *([f"/grid?{pair}&open={place}&after={place - 5}", []] for place in range(5, len(world.texts), 10)),
        *([f"/compare/answers?{pair}&position={place}", []] for place in range(0, len(world.texts), 10)),
        ["/trends", [world.who[1]]],
        [f"/trends?{urlencode({'suite': 'all', 'target': world.who[0]})}", []],
        ["/review", []],
        ["/certificates", []],
        [f"/certificates?run={world.first}", []],
        *([f"/suite?{urlencode({'name': name})}", [name]] for name in world.suites[::2]),
    ]
    check(guarded_page, pages)


def test_labels_with_notes_of_people_with_names(guarded_page: Page, world: SimpleNamespace) -> None:
    visit(guarded_page, f"/review?run={world.first}")
    for text in ("<img src=x onerror=alert(1) data-hacked>", "\"'><b data-hacked>", "{{7*7}}</textarea>"):
        name = guarded_page.get_by_label(re.compile("Your name|Labelling as"))
        name.fill(text)
        guarded_page.get_by_role("button", name=re.compile("^(Start|Change)$")).click()
        guarded_page.get_by_label("Reason").fill(text)
        guarded_page.get_by_role("button", name="Fail").click()
        guarded_page.get_by_role("link", name="Show it again").click()
        expect(guarded_page.get_by_label("Reason")).to_have_value(text)
        assert guarded_page.evaluate(CANARY) == []
    pages = [[f"/review?run={world.first}&show={show}", [text]] for show in ("all", "disagreements")]
    check(guarded_page, pages)
    labels = world.server.get(f"/review/labels.jsonl?run={world.first}")
    assert all(json.loads(line) for line in labels.text.splitlines())


def test_comments_of_people_with_names(guarded_page: Page, world: SimpleNamespace) -> None:
    visit(guarded_page, f"/runs/{world.first}")
    if guarded_page.get_by_role("button", name="Reveal the holdout").count():
        guarded_page.get_by_role("button", name="Reveal the holdout").click()
    visit(guarded_page, f"/runs/{world.first}/cases/1")
    for text in ("<img src=x onerror=alert(1) data-hacked>", "\"'><b data-hacked>", "{{7*7}}</textarea>"):
        guarded_page.get_by_label("Your name").fill(text)
        guarded_page.get_by_label("Comment", exact=True).fill(text)
        guarded_page.get_by_role("button", name="Add comment").click()
        expect(guarded_page.get_by_text(text, exact=True).first).to_be_visible()
        assert guarded_page.evaluate(CANARY) == []


def test_texts_that_are_pasted_and_files_with_such_names(guarded_page: Page, world: SimpleNamespace) -> None:
    for number, text in enumerate(TEXTS[::20]):
        guarded_page.goto("/suites/new")
        guarded_page.get_by_label("Name").fill(" ".join(text.split())[:200])
        line = json.dumps({"id": "a", "input": text, "expected": text, "scorer": text[:50]})
        name = f"{text.replace('/', '_')[:80]}.jsonl".replace("\0", "")
        if number % 2 and is_unicode(name):
            file = {"name": name, "mimeType": "text/plain", "buffer": line.encode()}
            guarded_page.get_by_label("File").set_input_files(file)  # type: ignore[arg-type]
        else:
            guarded_page.get_by_label("Cases").fill(f"{line}\n{text if is_unicode(text) else ''}")
        guarded_page.get_by_role("button", name="Validate").click()
        expect(guarded_page.get_by_role("heading", level=1)).to_contain_text(re.compile("read|Create"))
        assert guarded_page.evaluate(CANARY) == [], text


def test_what_an_address_says(guarded_page: Page, world: SimpleNamespace) -> None:
    fields = {
        "/runs": ("text", "suite", "target", "tag", "status", "sort", "after"),
        f"/runs/{world.first}": (
            "verdict",
            "tag",
            "category",
            "text",
            "missed",
            "grader",
            "case",
            "sort",
            "after",
        ),
        f"/runs/{world.first}/cases/1": ("text", "tag", "repeat", "view"),
        "/suites": ("find", "sort", "after"),
        "/suites/new": ("name", "version"),
        "/suite": ("name", "version", "case"),
        "/suite/diff": ("name", "old", "new"),
        "/suite/export": ("name", "to"),
        "/run": ("suite", "version", "target", "typed", "judge", "split", "repeats", "budget_usd", "tag"),
        "/compare": ("run", "split", "by"),
        "/compare/answers": ("run", "position"),
        "/grid": ("run", "group", "show", "tag", "text", "sort", "after", "open"),
        "/trends": ("suite", "target", "since", "until", "baseline"),
        "/review": ("run", "show", "tag", "at", "after"),
        "/certificates": ("run", "task"),
        "/login": ("next", "token"),
    }
    texts = [text for text in TEXTS if len(text) < 300 and is_unicode(text)]
    pages = [
        [f"{path}?{urlencode(dict.fromkeys(names, text))}", []]
        for place, (path, names) in enumerate(fields.items())
        for text in texts[place % 15 :: 15]
    ]
    pages += [
        [f"{path}/{quote(text, safe='')}", []]
        for path in ("/runs", "/starts", "/static")
        for text in texts[::5]
    ]
    check(guarded_page, pages)


@pytest.mark.parametrize("ending", ["html", "md", "csv", "xml", "json", "jsonl"])
def test_exports_of_a_run(guarded_page: Page, world: SimpleNamespace, ending: str) -> None:
    address = f"/runs/{world.first}/export.{ending}"
    answer = world.server.get(address)
    assert answer.status == 200
    assert re.fullmatch(rf'attachment; filename="[\w.-]+\.{ending}"', answer.headers["content-disposition"])
    text = answer.data.decode("utf-8")
    if ending == "html":
        guarded_page.goto("about:blank")  # which has no policy that would help
        guarded_page.set_content(text)
        assert guarded_page.evaluate(CANARY) == []
        list_attributes = (
            "[...document.querySelectorAll('*')].flatMap((it) => [...it.attributes].map(({name}) => name))"
        )
        assert not [
            name
            for name in guarded_page.evaluate(list_attributes)
            if name.startswith("on") or name == "data-hacked"
        ]
        assert guarded_page.locator("script, iframe, object, embed, base, link[href^='http']").count() == 0
    elif ending == "csv":
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert len(rows) == len(world.texts) + 1
        cells = [cell for row in rows[1:] for cell in row if not re.fullmatch(r"[+-]?\d+(\.\d+)?", cell)]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]
    elif ending == "xml":
        assert ElementTree.fromstring(text).tag in ("testsuites", "testsuite")
    elif ending == "md":
        outside = re.sub(r"(?s)(`+).*?\1", "", text)
        assert not re.search(r"(?<!\\)<(script|img|svg|iframe|a)\b", outside)
    else:
        rows = (
            [json.loads(text)]
            if ending == "json"
            else [json.loads(line) for line in text.split("\n") if line]
        )
        assert rows


def test_exports_of_suites_have_safe_names(world: SimpleNamespace) -> None:
    for name in world.suites:
        query = urlencode({"name": name, "to": "proctor"})
        answer = world.server.get(f"/suite/export?{query}")
        assert answer.status == 200, name
        assert not any("hacked" in cookie for cookie in answer.cookies)
        header = answer.headers["content-disposition"]
        assert re.fullmatch(
            r"attachment; filename=\"[^\"\\/\r\n]*\"(; filename\*=UTF-8''[\w.%!~*-]*)?", header
        ), header
        assert ".." not in header or "/" not in header


def test_a_certificate_and_its_badge(guarded_page: Page, world: SimpleNamespace) -> None:
    name = next(name for name in world.suites if name.startswith("<img"))
    (run,) = make_runs(world.server.site, name, "echo")
    world.server.post("/certificates", {"run": run.id, "fewest": "1"})
    page = f"/certificates?run={run.id}"
    visit(guarded_page, page)
    expect(guarded_page.get_by_role("img", name=re.compile("^Badge"))).to_be_visible()
    check(guarded_page, [[page, [name]], ["/certificates", []]])
    badge = world.server.get(f"/certificates/file?run={run.id}&name=badge")
    assert badge.status == 200
    assert badge.headers["content-disposition"].startswith("attachment;")
    root = ElementTree.fromstring(badge.text)
    for element in root.iter():
        assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "image", "style")
        assert not [key for key in element.attrib if key.startswith("on")]
        assert element.get("href", "bundle.zip") == "bundle.zip"
    markdown = world.server.get(f"/certificates/file?run={run.id}&name=markdown").text
    assert not re.search(r"(?<!\\)<img", re.sub(r"(?s)(`+).*?\1", "", markdown))
