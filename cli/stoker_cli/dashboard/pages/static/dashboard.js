"use strict";

// Fetches the page again when the server reports a change, and replaces its content. Without scripts, reload the page.
(() => {
  const button = document.getElementById("live");
  const state = document.getElementById("state");
  const main = document.querySelector("main");
  let events = null;
  let busy = false;
  let due = false;

  const tell = (text) => {
    if (state.textContent !== text) state.textContent = text;
  };

  const busyUser = () => {
    const element = document.activeElement;
    const typing = element instanceof HTMLInputElement && element.type === "search";
    return typing || document.querySelector("main :active") || String(document.getSelection()) !== "";
  };

  const focused = () => {
    const element = document.activeElement;
    if (!element || !element.closest("main")) return null;
    if (element.id) return `#${CSS.escape(element.id)}`;
    const attribute = ["href", "aria-labelledby", "aria-describedby"].find((name) => element.hasAttribute(name));
    const name = element.tagName.toLowerCase();
    return attribute ? `${name}[${attribute}="${CSS.escape(element.getAttribute(attribute))}"]` : null;
  };

  const show = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    if (!next) return;
    main.dataset.revision = next.dataset.revision;
    if (next.innerHTML === main.innerHTML) return;
    const selector = focused();
    const scrolled = [...document.querySelectorAll(".scroll")].map((element) => element.scrollLeft);
    main.replaceChildren(...next.childNodes);
    document.querySelectorAll(".scroll").forEach((element, at) => { element.scrollLeft = scrolled[at] || 0; });
    if (selector) (document.querySelector(`main ${selector}`) || main).focus({ preventScroll: true });
  };

  const refresh = async () => {
    due = true;
    if (busy || busyUser()) return;
    busy = true;
    due = false;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.redirected) location.assign(answer.url); // the session ended
      if (answer.ok) show(await answer.text());
      tell(answer.ok ? "Live" : "The page is not readable now");
    } catch {
      tell("Not connected");
    }
    busy = false;
    if (due) refresh();
  };

  const follow = (on) => {
    if (events) events.close();
    events = on ? new EventSource(`/events?since=${main.dataset.revision}`) : null;
    tell(on ? "Live" : "Paused");
    if (!events) return;
    events.addEventListener("change", refresh);
    events.onerror = () => tell("Not connected");
    events.onopen = () => tell("Live");
  };

  const paused = () => button.getAttribute("aria-pressed") === "true";
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(!paused()));
    follow(!paused());
  });
  document.addEventListener("visibilitychange", () => follow(!document.hidden && !paused()));
  document.addEventListener("focusout", () => { if (due && !paused()) setTimeout(refresh, 200); });
  document.querySelector(".live").hidden = false;
  follow(true);
})();
