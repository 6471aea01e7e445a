// Refreshes parts of a view, and adds messages as they come. Without scripts, all else works.
"use strict";

const EVERY = 3000;
const LIVE_EVERY = 1000;
const MOST_ROWS = 500;

async function piece(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" }, redirect: "error" });
  if (!answer.ok) {
    throw new Error(answer.status === 400 ? "the cluster does not answer as expected" : "status " + answer.status);
  }
  return answer;
}

// What somebody reads or has chosen stays: a part with the focus or a selection is not replaced.
function isInUse(part) {
  const selection = document.getSelection();
  return part.contains(document.activeElement) ||
    (selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode));
}

function refresh(box) {
  const part = document.getElementById(box.dataset.refresh);
  const label = box.parentElement;
  const words = label.lastChild.textContent;
  setInterval(async () => {
    if (!box.checked || document.hidden || isInUse(part)) {
      return;
    }
    const address = new URL(location.href);
    address.searchParams.set("part", "1");
    try {
      part.innerHTML = await (await piece(address)).text();
      label.lastChild.textContent = words;
    } catch (error) {
      label.lastChild.textContent = words + " (not now: " + error.message + ")";
    }
  }, EVERY);
}

function live(box) {
  const rows = document.getElementById(box.dataset.live);
  const state = document.getElementById(box.dataset.live + "-state");
  const address = new URL(box.dataset.address, location.href);
  let skipped = 0;
  let come = 0;
  async function look() {
    if (!box.checked) {
      return;
    }
    try {
      const answer = await piece(address);
      address.searchParams.set("pos", answer.headers.get("x-position"));
      skipped += Number(answer.headers.get("x-skipped"));
      const made = document.createElement("template");
      made.innerHTML = await answer.text();
      come += made.content.childElementCount;
      for (const row of made.content.children) {
        row.className = "fresh";
      }
      rows.prepend(made.content);
      while (rows.childElementCount > MOST_ROWS) {
        rows.lastElementChild.remove();
      }
      state.textContent = come + " came" + (skipped ? ", " + skipped + " were too many to show" : "");
    } catch (error) {
      state.textContent = "not now: " + error.message;
    }
    setTimeout(look, LIVE_EVERY);
  }
  box.addEventListener("change", look);
  look();
}

document.querySelectorAll("[data-refresh]").forEach(refresh);
document.querySelectorAll("[data-live]").forEach(live);
