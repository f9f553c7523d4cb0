// What pages do besides showing what the server made: keys, live sections, copying and dropped files.
// Each is asked for by a data attribute. Without this script every page works by its links and forms.
"use strict";
(() => {
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /** Say something once, where it is seen and where screen readers hear it. */
  let silence = 0;
  function say(sentence) {
    for (const place of all("[data-said]")) place.textContent = sentence;
    clearTimeout(silence);
    if (sentence) silence = setTimeout(() => say(""), 4000);
  }

  // --- keys ------------------------------------------------------------------------------------------------
  const SWITCH = "proctor.keys";
  const TYPED = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=file])";

  let keysAreOff = false;
  try { keysAreOff = localStorage.getItem(SWITCH) === "off"; } catch { /* a browser that keeps nothing */ }

  function switchKeys(on) {
    keysAreOff = !on;
    try {
      localStorage.setItem(SWITCH, on ? "on" : "off");
    } catch { say("This browser does not store settings, so the change applies to this page only."); }
  }

  function openKeys() {
    const dialog = one("dialog[data-keys-dialog]");
    if (!dialog || dialog.open) return;
    for (const box of all("[data-keys-switch]", dialog)) box.checked = !keysAreOff;
    dialog.showModal();
  }

  const rows = () => all("table[data-keys] tbody tr:not([data-part])")
    .filter((row) => one("a[href]", row) && row.getClientRects().length);
  /** The links by which the keys h and l move through a row of a grid: the first one of each cell. */
  const cellLinks = (row) => [...row.cells].map((cell) => one("a[href]", cell)).filter(Boolean);

  let column = 0; // of a grid: 0 is the name of the case

  function choose(row) {
    for (const other of all("tr.selected")) other.classList.remove("selected");
    row.classList.add("selected");
    if (row.id) history.replaceState(history.state, "", `#${row.id}`);
    const links = row.closest("[data-grid]") ? cellLinks(row) : [];
    (links[Math.min(column, links.length - 1)] ?? one("a[href]", row)).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function move(by) {
    const list = rows();
    const focused = list.findIndex((row) => row.contains(document.activeElement));
    const at = focused >= 0 ? focused : list.findIndex((row) => row.classList.contains("selected"));
    choose(list[Math.max(0, Math.min(at + by, list.length - 1))]);
  }

  /** Chooses the next cell of a grid's row, or the one before. */
  function moveAcross(by) {
    const row = document.activeElement.closest("[data-grid] tbody tr:not([data-part])") ?? one("[data-grid] tr.selected") ?? rows()[0];
    const links = cellLinks(row), focused = links.indexOf(document.activeElement);
    column = Math.max(0, Math.min((focused < 0 ? column : focused) + by, links.length - 1));
    choose(row);
    links[column].scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** What a key does here; nothing where the page has no use for it, so that it stays the browser's. */
  function actionOf(key) {
    const pressed = all("[data-press]").find((it) => it.dataset.press === key && !it.disabled);
    if (pressed) return () => pressed.click();
    const follow = (selector) => {
      const link = one(selector);
      return link && (() => link.click());
    };
    switch (key) {
      case "j": return rows().length ? () => move(1) : null;
      case "k": return rows().length ? () => move(-1) : null;
      case "h": return one("[data-grid]") && (() => moveAcross(-1));
      case "l": return one("[data-grid]") && (() => moveAcross(1));
      case "d": return follow("[data-grid] tr.selected a[href]");
      case "f": return follow("a[data-failures]");
      case "[": case "p": return follow("a[rel~=prev]");
      case "]": case "n": return follow("a[rel~=next]");
      case "?": return openKeys;
      case "Enter": // the row that was chosen, when nothing else has the focus
        return document.activeElement === document.body ? follow("tr.selected a[href]") : null;
      case "/": {
        const field = one("[data-search]");
        return field && (() => { field.focus(); field.select?.(); });
      }
      default: return null;
    }
  }

  document.addEventListener("keydown", (event) => {
    const chord = event.metaKey || ((event.ctrlKey || event.altKey) && !event.getModifierState("AltGraph"));
    if (event.defaultPrevented || event.isComposing || chord) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.key === "Escape" && target.matches("[data-search]")) target.blur();
    if (keysAreOff || target.closest(TYPED) || one("dialog[open]")) return;
    if (event.repeat && !"jkhl".includes(event.key)) return;
    const action = actionOf(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });

  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-keys-switch]")) switchKeys(target.checked);
  });

  // --- copying ---------------------------------------------------------------------------------------------
  /** The text that a button copies: its own, that of the element it names, or that of the code beside it. */
  function textOf(button) {
    if (button.dataset.copy) return button.dataset.copy;
    const source = document.getElementById(button.dataset.copyOf) ?? one("textarea, pre, code", button.parentElement);
    return source?.value ?? source?.textContent ?? "";
  }

  /** Where a page has no right to the clipboard, as over plain HTTP from another machine. */
  function copyBySelection(text) {
    const field = document.createElement("textarea");
    field.value = text;
    field.readOnly = true;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }

  async function copy(button) {
    const text = textOf(button);
    const done = await navigator.clipboard?.writeText(text).then(() => true, () => false) || copyBySelection(text);
    button.focus({ preventScroll: true });
    say(done ? "Copied." : "Not copied: the browser does not allow it. Select the text and copy it yourself.");
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-of]");
    if (button) copy(button);
    else if (event.target.closest("[data-keys-open]")) openKeys();
  });

  // --- dropped files ---------------------------------------------------------------------------------------
  function zoneOf(event) {
    if (!event.dataTransfer?.types.includes("Files")) return null;
    const zones = all("[data-drop]");
    return event.target.closest?.("[data-drop]") ?? (zones.length === 1 ? zones[0] : null);
  }

  function mark(zone) {
    for (const other of all("[data-drop]")) other.classList.toggle("drop", other === zone);
  }

  function dropped(zone, files) {
    const field = one("input[type=file]", zone);
    if (!field || !files.length) return;
    const taken = new DataTransfer();
    for (const file of field.multiple ? files : [files[0]]) taken.items.add(file);
    field.files = taken.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
    say(`Chosen: ${[...taken.files].map((file) => file.name).join(", ")}.`);
  }

  document.addEventListener("dragover", (event) => {
    const zone = zoneOf(event);
    mark(zone);
    if (zone) event.preventDefault();
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) mark(null); // it left the window
  });
  document.addEventListener("drop", (event) => {
    const zone = zoneOf(event);
    mark(null);
    if (!zone) return;
    event.preventDefault(); // else the browser leaves the page and opens the file
    dropped(zone, [...event.dataTransfer.files]);
  });

  // --- the lines of an edited text --------------------------------------------------------------------------
  /** Select a line of a text field. A field that gets the focus scrolls to where its caret is. */
  function selectLine(field, number) {
    const lines = field.value.split("\n");
    const start = lines.slice(0, number - 1).reduce((length, line) => length + line.length + 1, 0);
    field.blur();
    field.setSelectionRange(start, start);
    field.focus();
    field.setSelectionRange(start, start + (lines[number - 1] ?? "").length);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-line]");
    const field = link && one("textarea#text");
    if (!field) return;
    event.preventDefault();
    selectLine(field, Number(link.dataset.line));
  });

  const edited = one("textarea[data-select-line]");
  if (edited) selectLine(edited, Number(edited.dataset.selectLine));

  // --- forms -----------------------------------------------------------------------------------------------
  /** What a form's page says of other choices: the address keeps them, and the parts that it names are new. */
  let asked = 0;
  document.addEventListener("change", async ({ target }) => {
    const form = target.form?.matches("[data-again]") ? target.form : null;
    if (!form) return;
    const turn = asked += 1, given = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...given]) if (!value || name === "csrf" || name === "group") given.delete(name);
    const address = `${new URL(form.action).pathname}?${given}`;
    const answer = await fetch(address).catch(() => null);
    const made = answer?.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!made || turn !== asked) return;
    history.replaceState(history.state, "", address);
    for (const part of all(form.dataset.again)) {
      const now = one(part.id ? `#${part.id}` : part.localName, made);
      if (now && !part.contains(document.activeElement)) part.replaceWith(now);
    }
    say(one("h1").textContent.trim());
  });

  /** Filters: `form[data-auto]` is sent by each choice. Its button is for browsers without this script. */
  for (const button of all("form[data-auto] button")) button.hidden = true;
  document.addEventListener("change", ({ target }) => {
    if (target.form?.matches("[data-auto]")) target.form.requestSubmit();
  });
  document.addEventListener("formdata", ({ target, formData }) => {
    if (!target.matches("[data-auto]")) return;
    const choices = [...formData].filter(([, value]) => value);
    for (const name of new Set(formData.keys())) formData.delete(name);
    for (const [name, value] of choices) formData.append(name, value);
  });

  /** How long a large file has been read for; a page that comes back from the browser's memory waits for nothing. */
  let waiting = 0;
  document.addEventListener("submit", ({ target }) => {
    if (!target.matches("[data-waits]")) return;
    const began = performance.now();
    waiting = setInterval(() => say(`${target.dataset.waits}: ${Math.round((performance.now() - began) / 1_000)} s so far.`), 2_000);
  });
  addEventListener("pageshow", () => clearInterval(waiting));

  // --- choosing rows by the points of a drawing -----------------------------------------------------------
  const boxes = () => all("form[data-chooses] input[type=checkbox]");

  function showChoice() {
    const values = new Set(boxes().filter((box) => box.checked).map((box) => box.value));
    for (const point of all("[data-picks]")) point.classList.toggle("picked", values.has(point.dataset.picks));
    for (const place of all("[data-chosen]")) {
      place.dataset.chosen ||= place.textContent;
      place.textContent = values.size ? `${values.size} chosen.` : place.dataset.chosen;
    }
  }

  document.addEventListener("click", (event) => {
    const point = event.target.closest("[data-picks]");
    const box = point && boxes().find((it) => it.value === point.dataset.picks);
    if (!box || event.metaKey || event.ctrlKey || event.shiftKey) return; // a link, as without this script
    event.preventDefault();
    box.checked = !box.checked;
    showChoice();
  });
  document.addEventListener("change", ({ target }) => {
    if (target.form?.matches("[data-chooses]")) showChoice();
  });
  addEventListener("pageshow", showChoice); // browsers keep what was chosen when one comes back

  // --- local time ------------------------------------------------------------------------------------------
  const LANGUAGE = navigator.languages.find((it) => it.startsWith("en")) ?? "en-GB";
  const DIGITS = { month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const CLOCK = new Intl.DateTimeFormat(LANGUAGE, { year: "numeric", ...DIGITS, timeZoneName: "short" });

  /** Write times in the reader's zone; the title has what the server wrote, which is UTC. */
  function localize() {
    for (const time of all("time[datetime]:not([title])")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.valueOf())) continue;
      time.title = time.textContent.trim();
      const { year, month, day, hour, minute, timeZoneName } =
        Object.fromEntries(CLOCK.formatToParts(moment).map((part) => [part.type, part.value]));
      if (timeZoneName === "UTC") continue;
      const zone = document.createElement("span");
      zone.className = "quiet";
      zone.textContent = timeZoneName;
      time.replaceChildren(`${year}-${month}-${day} ${hour}:${minute} `, zone);
    }
  }
  localize();
  new MutationObserver(localize).observe(document.body, { childList: true, subtree: true });

  // --- live sections ---------------------------------------------------------------------------------------
  const FOCUSED = "a[href], button, input, select, textarea, summary, [tabindex]";
  const SAID_EVERY_MS = 10_000;
  const AGAIN_MS = 3_000, MAX_AGAIN_MS = 60_000;

  /** The element of the new content that is what had the focus in the old one. */
  function finder(section) {
    const focused = document.activeElement;
    if (!section.contains(focused) || focused === section) return () => null;
    const place = all(FOCUSED, section).indexOf(focused), { id } = focused, href = focused.getAttribute("href");
    return () => {
      const now = all(FOCUSED, section);
      return now.find((it) => (id ? it.id === id : href && it.getAttribute("href") === href)) ?? now[place];
    };
  }

  function show(section, html) {
    const found = finder(section);
    const kept = all("details, .scroll", section).map((it) => [it.open, it.scrollLeft, it.scrollTop]);
    const at = [scrollX, scrollY];
    section.innerHTML = html;
    all("details, .scroll", section).forEach((it, place) => {
      const [open, left, top] = kept[place] ?? [it.open, 0, 0];
      if (it.localName === "details") it.open = open;
      it.scrollTo(left, top);
    });
    found()?.focus({ preventScroll: true });
    scrollTo(...at);
  }

  /** A line before a section, which screen readers say whenever it changes. */
  function lineBefore(section, name) {
    const line = document.createElement("p");
    line.className = name;
    line.setAttribute("role", "status");
    section.before(line);
    return line;
  }

  function live(section) {
    const heard = lineBefore(section, "unseen"), state = lineBefore(section, "quiet live-state");
    let source = null, again = 0, shown = null, said = "", saidAt = -SAID_EVERY_MS;
    let refused = 0; // times in a row

    const tell = (sentence) => { if (state.textContent !== sentence) state.textContent = sentence; };
    function took(html) {
      tell("Live.");
      const chosen = getSelection();
      const selecting = chosen && !chosen.isCollapsed && section.contains(chosen.anchorNode);
      if (html === shown || selecting) return; // what is being copied stays until the next message
      show(section, shown = html);
      const heading = one("[data-heading]", section)?.dataset.heading;
      if (heading) {
        one("h1").textContent = heading;
        document.title = `${heading} · Proctor`;
      }
      const summary = one("[data-summary]", section)?.textContent.trim() ?? "";
      if (summary === said || performance.now() - saidAt < SAID_EVERY_MS) return;
      heard.textContent = said = summary;
      saidAt = performance.now();
    }
    function connect() {
      clearTimeout(again);
      source = new EventSource(section.dataset.live);
      source.onopen = () => { refused = 0; };
      source.onmessage = (message) => took(message.data);
      source.addEventListener("done", () => {
        source.close();
        setTimeout(() => location.reload(), Math.max(0, 1_000 - performance.now()));
      });
      source.onerror = () => {
        tell("Not live: connection lost, trying again.");
        // Closed: the server answered with an error, such as that too many pages are live. Ask it more and more rarely.
        if (source.readyState === EventSource.CLOSED) {
          again = setTimeout(connect, Math.min(MAX_AGAIN_MS, AGAIN_MS * 2 ** refused++));
        }
      };
    }
    // A browser has six connections to a server: pages that nobody sees leave them to the others.
    document.addEventListener("visibilitychange", () => {
      clearTimeout(again);
      source.close();
      if (!document.hidden) connect();
    });
    connect();
  }

  for (const section of all("[data-live]")) live(section);
  const place = document.getElementById(location.hash.slice(1));
  if (place?.matches("table[data-keys] tbody tr")) place.classList.add("selected");
})();
