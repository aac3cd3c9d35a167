"use strict";
// Conveniences only: every page works without scripts.

// Show the cost of a question while it is typed, half a second after the last key.
const questionForm = document.querySelector("form[data-explain]");
if (questionForm) {
  const explanation = document.getElementById("explained");
  let timer = 0, lastQuery = "", running = null;
  const explain = async () => {
    const fields = new FormData(questionForm);
    const query = new URLSearchParams(fields).toString();
    if (query === lastQuery || !String(fields.get("sql")).trim()) return;
    lastQuery = query;
    if (running) running.abort();  // an older answer must not replace a newer one
    running = new AbortController();
    try {
      const reply = await fetch(questionForm.dataset.explain, {
        method: "POST", body: new URLSearchParams(fields), signal: running.signal,
      });
      if (!(reply.headers.get("content-type") || "").startsWith("text/html") || reply.redirected) return;
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const newer = page.getElementById("explained");
      if (newer) explanation.replaceChildren(...newer.childNodes);
    } catch (error) {
      if (error.name !== "AbortError") lastQuery = "";  // try again at the next key
    }
  };
  questionForm.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(explain, 500); });
}

// On a phone the navigation is one line that scrolls: bring the current page into view.
const current = document.querySelector(".bar [aria-current]");
if (current) {
  const list = current.closest("ul");
  list.scrollLeft = current.offsetLeft - list.offsetLeft - 40;
}

// Add a button that copies the content of a box.
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

// A second click must not send a form twice, because questions are charged.
for (const form of document.querySelectorAll("form[data-once]")) {
  let sent = false;
  form.addEventListener("submit", event => { if (sent) event.preventDefault(); sent = true; });
  addEventListener("pageshow", () => { sent = false; });
}
