"use strict";
// Comfort alone: every page works without it.

// Say what a question would cost while it is typed, a moment after the last key.
const asking = document.querySelector("form[data-explain]");
if (asking) {
  const shown = document.getElementById("explained");
  let waiting = 0, last = "", running = null;
  const explain = async () => {
    const said = new FormData(asking);
    const now = new URLSearchParams(said).toString();
    if (now === last || !String(said.get("sql")).trim()) return;
    last = now;
    if (running) running.abort();
    running = new AbortController();
    try {
      const reply = await fetch(asking.dataset.explain, {
        method: "POST", body: new URLSearchParams(said), signal: running.signal,
      });
      if (!(reply.headers.get("content-type") || "").startsWith("text/html") || reply.redirected) return;
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const part = page.getElementById("explained");
      if (part) shown.replaceChildren(...part.childNodes);
    } catch (error) {
      if (error.name !== "AbortError") last = "";
    }
  };
  asking.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(explain, 500); });
}

// On a phone the navigation is a line that scrolls: show where one is in it.
const here = document.querySelector(".bar [aria-current]");
if (here) here.closest("ul").scrollLeft = here.offsetLeft - here.closest("ul").offsetLeft - 40;

// Offer to copy what stands in a box.
for (const box of document.querySelectorAll(".copied")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(box.querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  box.append(button);
}

// A form that was sent is not sent twice by a second click.
for (const form of document.querySelectorAll("form[data-once]")) {
  let sent = false;
  form.addEventListener("submit", event => { if (sent) event.preventDefault(); sent = true; });
  addEventListener("pageshow", () => { sent = false; });
}
