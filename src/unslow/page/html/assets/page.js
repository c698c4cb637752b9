"use strict";
// The page's script: copy buttons, the theme, sliders, forms and live runs. All numbers and all HTML come from Python;
// whatever the server sends was escaped there. Without this script the page can still be read.

(() => {
  const root = document.documentElement;
  const token = document.querySelector('meta[name="unslow-token"]')?.content ?? "";
  const isLive = token !== "";
  const byId = (id) => document.getElementById(id);

  // ---- what is said to screen readers ----

  let saying = 0;

  function say(text, afterMs = 0) {
    clearTimeout(saying);
    saying = setTimeout(() => { byId("said").textContent = text; }, afterMs);
  }

  // ---- the theme ----

  const THEME = "unslow-theme";
  const wantsDark = matchMedia("(prefers-color-scheme: dark)");

  function kept(name) {
    try { return localStorage.getItem(name); } catch { return null; } // a browser may keep nothing
  }

  function keep(name, value) {
    try { localStorage.setItem(name, value); } catch { /* then it lasts until the page is closed */ }
  }

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : wantsDark.matches;
  }

  function showTheme() {
    byId("theme").setAttribute("aria-pressed", String(isDark()));
  }

  function wireTheme() {
    byId("theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      keep(THEME, root.dataset.theme);
      showTheme();
    });
    wantsDark.addEventListener("change", showTheme);
    showTheme();
  }

  // ---- copy buttons ----

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copiedByHand(text);
    }
  }

  function copiedByHand(text) {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "for-ears";
    document.body.append(area);
    area.select();
    let done = false;
    try { done = document.execCommand("copy"); } catch { done = false; }
    area.remove();
    return done;
  }

  async function copy(button) {
    const done = await copied(button.dataset.copy);
    button.focus({ preventScroll: true });
    button.textContent = done ? "Copied" : "Select manually";
    say(done ? "copied" : "copying failed: select the text manually");
    clearTimeout(button.back);
    button.back = setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  // ---- asking the server ----

  class Refused extends Error {}

  async function ask(path, options = {}) {
    const headers = { "X-Unslow-Token": token, ...options.headers };
    const response = await fetch(`api/v1/${path}`, { ...options, headers, cache: "no-store" });
    if (response.ok) return response;
    let message = `the server answered ${response.status}`;
    try {
      const { error } = await response.json();
      message = error.hint ? `${error.message} (${error.hint})` : error.message;
    } catch { /* no JSON: the status has to do */ }
    throw new Refused(message);
  }

  function failure(error) {
    return error instanceof Refused ? error.message : "server unreachable: is unslow serve still running?";
  }

  // ---- putting in what the server sends ----

  function openedIn(element) {
    return [...element.querySelectorAll("details")].map((one) => one.open);
  }

  function reopen(element, opened) {
    [...element.querySelectorAll("details")].forEach((one, place) => { one.open = opened[place] ?? one.open; });
  }

  function fill(element, html) {
    const opened = openedIn(element);
    element.innerHTML = html;
    reopen(element, opened);
  }

  // a panel is replaced as a whole; the focus comes back to what had it, or to the panel
  function replace(id, html) {
    const old = byId(id);
    if (!old) return;
    const opened = openedIn(old);
    const focused = old.contains(document.activeElement) ? document.activeElement.id : null;
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const made = holder.content.firstElementChild;
    if (!made) return;
    old.replaceWith(made);
    reopen(made, opened);
    document.querySelectorAll(`nav.contents a[href="#${id}"]`).forEach((way) => { way.hidden = made.hidden; });
    made.querySelectorAll("form.sliders").forEach(wireSliders);
    if (focused === null) return;
    const again = focused && byId(focused);
    if (!again) made.tabIndex = -1;
    (again || made).focus({ preventScroll: true });
  }

  // ---- sliders ----

  const values = (input) => JSON.parse(input.dataset.values);
  const valueOf = (input) => values(input)[Number(input.value)];
  const rangesOf = (form) => [...form.querySelectorAll('input[type="range"]')];

  function showPlace(input) {
    const label = JSON.parse(input.dataset.labels)[Number(input.value)];
    input.setAttribute("aria-valuetext", label);
    const output = input.closest(".slider").querySelector("output");
    output.textContent = label;
  }

  // the verdict of an answer is said when the slider rests, not at every place on the way
  function sayAnswer(answer) {
    const verdict = answer.querySelector(".fits");
    if (verdict) say(verdict.textContent, 500);
  }

  function wireSliders(form) {
    const answer = byId(`answer-${form.dataset.subject}`);
    const inputs = rangesOf(form);
    const now = new Map(inputs.map((input) => [input.name, input.value]));
    const answered = isLive ? asking(form, answer) : lookingUp(form, answer, now);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => {
      showPlace(event.target);
      answered(event.target);
    });
    const back = document.createElement("button");
    back.type = "button";
    back.className = "back";
    back.textContent = "Reset";
    back.addEventListener("click", () => {
      inputs.forEach((input) => { input.value = now.get(input.name); showPlace(input); });
      answered(inputs[0]);
    });
    footOf(form).prepend(back);
  }

  function footOf(form) {
    const foot = form.querySelector(".foot") ?? document.createElement("div");
    foot.className = "foot";
    form.append(foot);
    return foot;
  }

  // one question at a time; where a slider was moved meanwhile, the next is about where it stands by then
  function asking(form, answer) {
    let asked = false;
    let again = false;
    async function question() {
      const query = new URLSearchParams(rangesOf(form).map((input) => [input.name, valueOf(input)]));
      try {
        fill(answer, await (await ask(`subjects/${form.dataset.subject}/what-if.html?${query}`)).text());
        answer.dataset.answers = String(Number(answer.dataset.answers ?? 0) + 1);
        sayAnswer(answer);
      } catch (error) {
        showError(answer, failure(error));
      }
    }
    return async () => {
      again = asked;
      if (asked) return;
      asked = true;
      do {
        again = false;
        await question();
      } while (again);
      asked = false;
    };
  }

  // a file can ask nobody: it has the answers for one slider moved at a time
  function lookingUp(form, answer, now) {
    const first = answer.innerHTML;
    const ready = new Map();
    document.querySelectorAll(`template.ready[data-subject="${form.dataset.subject}"]`).forEach((one) => {
      ready.set(`${one.dataset.knob}=${one.dataset.value}`, one.innerHTML);
    });
    const note = document.createElement("p");
    note.className = "quiet";
    note.textContent = "This file has results for one slider at a time; unslow serve combines them.";
    footOf(form).append(note);
    return (moved) => {
      rangesOf(form).filter((input) => input !== moved && input.value !== now.get(input.name)).forEach((input) => {
        input.value = now.get(input.name);
        showPlace(input);
      });
      const html = moved.value === now.get(moved.name) ? first : ready.get(`${moved.name}=${valueOf(moved)}`);
      if (html === undefined) showError(answer, "This file has no result for that value.");
      else fill(answer, html);
      sayAnswer(answer);
    };
  }

  function showError(element, message) {
    const shown = document.createElement("p");
    shown.className = "error";
    shown.setAttribute("role", "alert");
    shown.textContent = message;
    element.querySelectorAll(":scope > .error").forEach((one) => one.remove());
    element.prepend(shown);
  }

  // ---- forms that ask: <form data-ask="devices.html" data-into="ID"> ----

  async function submitted(form) {
    const place = byId(form.dataset.into);
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    const button = form.querySelector('[type="submit"]');
    place.setAttribute("aria-busy", "true");
    if (button) button.disabled = true;
    try {
      fill(place, await (await ask(`${form.dataset.ask}?${query}`)).text());
      say("results ready");
    } catch (error) {
      place.replaceChildren();
      showError(place, failure(error));
    } finally {
      place.removeAttribute("aria-busy");
      if (button) { button.disabled = false; button.focus({ preventScroll: true }); }
    }
  }

  // ---- live runs ----

  const MOST_TRIES = 8;
  const MOST_REMARKS = 4;
  const run = { id: "", kind: "", since: 0, subject: 0, over: true, saidAt: 0 };

  function runText(text, share) {
    byId("run-text").textContent = text;
    const bar = byId("run-share");
    if (share === null || share === undefined) bar.removeAttribute("value");
    else bar.value = share;
    if (Date.now() - run.saidAt > 5000) { // a screen reader is told now and then, not at every step
      run.saidAt = Date.now();
      say(text);
    }
  }

  // a line that stays, such as how much is sent and to whom
  function remark(text) {
    const line = document.createElement("li");
    line.textContent = text;
    const lines = byId("run-remarks");
    lines.append(line);
    if (lines.children.length > MOST_REMARKS) lines.firstElementChild.remove();
    say(text);
  }

  function began(id, title, subject) {
    Object.assign(run, { id, since: 0, subject, over: false, saidAt: 0 });
    byId("run").hidden = false;
    byId("run").classList.remove("failed");
    byId("run-title").textContent = title;
    byId("run-remarks").replaceChildren();
    byId("run-share").hidden = byId("run-stop").hidden = false;
    byId("run-stop").disabled = false;
    byId("run-close").hidden = byId("run-anyway").hidden = byId("run-anyway-words").hidden = true;
    document.querySelectorAll("button.start").forEach((one) => {
      one.dataset.off = String(one.disabled);
      one.disabled = true;
    });
    runText("starting", null);
  }

  // `anyway` says what measuring all the same would do, where a conversation was in the way
  function ended(text, failed = false, anyway = "") {
    run.over = true;
    byId("run-anyway").hidden = byId("run-anyway-words").hidden = !anyway;
    byId("run-anyway-words").textContent = anyway ? `Measure anyway: ${anyway}` : "";
    byId("run").classList.toggle("failed", failed);
    byId("run-text").textContent = text;
    byId("run-share").hidden = byId("run-stop").hidden = true;
    byId("run-close").hidden = false;
    document.querySelectorAll("button.start").forEach((one) => { one.disabled = one.dataset.off === "true"; });
    say(text);
    renewOffers();
  }

  function start(button) {
    const subject = button.dataset.subject === undefined ? null : Number(button.dataset.subject);
    return measure(button.dataset.run, subject, button.textContent);
  }

  async function measure(kind, subject, title, evict = false) {
    began("", title, subject);
    run.kind = kind;
    try {
      const body = JSON.stringify({ kind, subject, evict });
      const headers = { "Content-Type": "application/json" };
      const response = await ask("runs", { method: "POST", headers, body });
      run.id = (await response.json()).id;
      await follow();
    } catch (error) {
      ended(failure(error), true);
    }
  }

  // reads what the run tells, line by line; where the connection breaks it goes on from the last line
  async function follow() {
    for (let tries = 0; !run.over && tries < MOST_TRIES; tries += 1) {
      try {
        const response = await ask(`runs/${run.id}/events?since=${run.since}`);
        for await (const event of linesOf(response.body)) {
          tries = 0;
          run.since = Math.max(run.since, event.number ?? 0);
          await told(event);
        }
      } catch (error) {
        if (error instanceof Refused) { ended(error.message, true); return; }
      }
      if (!run.over) await new Promise((go) => setTimeout(go, Math.min(8000, 250 * 2 ** tries)));
    }
    if (!run.over) ended("connection lost: is unslow serve still running?", true);
  }

  async function* linesOf(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.trim()) yield JSON.parse(line);
    }
  }

  async function told(event) {
    switch (event.event) {
      case "progress":
        if (event.share === null || event.share === undefined) remark(event.text);
        else runText(event.text, event.share);
        break;
      case "pass":
        runText(event.tokens_per_s ? `${event.text}: ${event.tokens_per_s.toPrecision(3)} tok/s` : event.text,
          byId("run-share").value);
        break;
      case "panel":
        replace(`${event.name}-${event.subject}`, event.html);
        break;
      case "done":
        if (event.reload || run.subject === null) { location.reload(); return; }
        await refresh();
        ended(event.text, false, event.anyway);
        break;
      case "error":
        ended(event.hint ? `${event.message} (${event.hint})` : event.message, true, event.anyway);
        break;
      default: // a sample, or what a later version tells
        break;
    }
  }

  // every panel of the subject as it is now
  async function refresh() {
    const article = document.querySelector(`article[data-subject="${run.subject}"]`);
    if (!article) return;
    const names = [...article.querySelectorAll("section[data-panel]")].map((one) => one.dataset.panel);
    await Promise.all(names.map(async (name) => {
      try {
        const response = await ask(`subjects/${run.subject}/panels/${name}.html`);
        replace(`${name}-${run.subject}`, await response.text());
      } catch { /* the old one stays */ }
    }));
  }

  // a run that goes on already: the page was opened again, or another window began it
  async function join() {
    try {
      const going = (await (await ask("runs")).json()).find((one) => one.state === "running");
      if (!going) return;
      const title = byId(`start-${going.subject ?? 0}-${going.kind}`)?.textContent ?? "Run in progress";
      began(going.id, title, going.subject);
      run.kind = going.kind;
      await follow();
    } catch { /* then there is nothing to join */ }
  }

  // what a run has found changes what can be started: a server that was busy may be idle
  async function renewOffers() {
    if (!document.querySelector("button.start") || !run.over) return;
    try {
      for (const offer of await (await ask("offers")).json()) {
        const button = byId(`start-${offer.subject ?? 0}-${offer.kind}`);
        if (!button || !run.over) continue;
        button.disabled = offer.refused !== "";
        button.textContent = offer.label;
        byId(button.getAttribute("aria-describedby")).textContent = offer.refused || offer.words;
      }
    } catch { /* then they stay as they are */ }
  }

  async function stop() {
    byId("run-stop").disabled = true;
    runText("stopping", null);
    try { await ask(`runs/${run.id}`, { method: "DELETE" }); } catch (error) { ended(failure(error), true); }
  }

  // ---- all together ----

  function clicked(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.matches(".copy")) copy(button);
    else if (button.matches(".start")) start(button);
    else if (button.id === "run-stop") stop();
    else if (button.id === "run-anyway") measure(run.kind, run.subject, button.textContent, true);
    else if (button.id === "run-close") byId("run").hidden = true;
  }

  function wire() {
    wireTheme();
    document.addEventListener("click", clicked);
    document.addEventListener("submit", (event) => {
      if (!event.target.matches("form[data-ask]")) return;
      event.preventDefault();
      submitted(event.target);
    });
    document.querySelectorAll("form.sliders").forEach(wireSliders);
    addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
    if (isLive) join();
  }

  root.classList.add("script");
  if (kept(THEME)) root.dataset.theme = kept(THEME) === "dark" ? "dark" : "light";
  document.addEventListener("DOMContentLoaded", wire);
})();
