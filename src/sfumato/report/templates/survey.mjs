// What the page does: take an answer, randomize it here (mechanism.mjs), send only the report.
//
// The report is written down on this device before it is sent. One round is answered by one report,
// for ever: whatever fails or is rejected, the same report is sent again, at most with another
// ticket. A second randomized report of one answer would give more away.

import { randomize } from "./mechanism.mjs";

const round = JSON.parse(document.querySelector("main").dataset.round);
const ask = document.getElementById("ask");
const status = document.getElementById("status");
const button = document.getElementById("send");
const hand = document.getElementById("by-hand");

// Some browsers keep nothing; then a report only lives as long as this page.
let remembered = null;
const place = "sfumato " + round.id;
function remember(entry) {
  remembered = entry;
  try { localStorage.setItem(place, JSON.stringify(entry)); } catch { /* kept on the page */ }
  return entry;
}
function recall() {
  try { return JSON.parse(localStorage.getItem(place)) ?? remembered; } catch { return remembered; }
}

function say(text) { status.textContent = text; }

function done(entry) {
  remember({ ...entry, sent: true });
  ask.hidden = true;
  hand?.remove(); // a second report by coins would give as much away
  const said = round.choices[entry.report];
  say(`Thank you. What left this device is “${said}”, which may be your answer or chance.`);
}

async function send(entry) {
  button.disabled = true;
  say("Sending …");
  try {
    const answer = await fetch(round.reports, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ reports: [{ ticket: entry.ticket, report: entry.report }] }),
    });
    if (answer.status === 429) {
      const minutes = Math.ceil(Number(answer.headers.get("Retry-After")) / 60);
      say(`From your address too many reports came. Press the button again in ${minutes} min: the same report will be sent.`);
      button.disabled = false;
      return undefined;
    }
    const told = await answer.json();
    const code = told.rejected?.[0]?.code;
    // A ticket that was used before: the report had arrived, only the answer to it got lost.
    if (told.accepted === 1 || code === "replayed") return done(entry);
    if (code === "closed") return say("This round is closed. Nothing was counted.");
    // Only a ticket that was rejected is let go: under one that was not, the report may have arrived.
    if (code) remember({ report: entry.report });
    say("This could not be counted. Load the page again and press the button: the same report will be sent.");
  } catch {
    say("The network failed. Press the button again: the same report will be sent.");
  }
  button.disabled = false;
}

button.addEventListener("click", () => {
  const waiting = recall();
  if (waiting) return send(remember({ ticket: round.ticket, ...waiting }));
  const chosen = document.querySelector("#ask input:checked");
  if (!chosen) return say("Choose an answer first.");
  const report = randomize(round, Number(chosen.value));
  chosen.checked = false; // from here on the answer itself is nowhere
  return send(remember({ ticket: round.ticket, report }));
});

const before = recall();
hand?.removeAttribute("open");
ask.hidden = false;
if (before?.sent) done(before);
else if (before) say("An answer waits to be sent from this device. Press the button.");
