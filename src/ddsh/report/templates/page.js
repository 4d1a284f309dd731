"use strict";
// Pointing at a figure shows the nearest mark in words; pointing at a name dims all others, and pressing it keeps them so.
(() => {
  const reach = 22;
  const tip = document.getElementById("tip");

  // Browsers show <title> late and not on touch: its text moves into an attribute that we show at once.
  for (const title of document.querySelectorAll(".chart svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }

  const nearest = (svg, x, y) => {
    let best = null;
    let least = reach;
    for (const mark of svg.querySelectorAll("use[data-tip], path")) {
      const owner = mark.closest("[data-tip]");
      if (!owner) continue;
      if (mark.tagName === "path" && owner.querySelector("use[data-tip]")) continue;
      const box = mark.getBoundingClientRect();
      const isBar = mark.tagName === "path" && box.width < 60;
      const distance = isBar
        ? Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom))
        : Math.hypot(box.left + box.width / 2 - x, box.top + box.height / 2 - y);
      if (distance < least) [best, least] = [owner, distance];
    }
    return best;
  };

  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x - width / 2), document.documentElement.clientWidth - width - 8);
    tip.style.transform = `translate(${left}px, ${y > height + 24 ? y - height - 14 : y + 18}px)`;
  };

  const emphasise = (chart, number) => {
    for (const part of chart.querySelectorAll("[data-series]")) {
      part.classList.toggle("dim", number !== null && part.dataset.series !== number);
    }
  };

  for (const chart of document.querySelectorAll(".chart")) {
    const kept = () => chart.querySelector("button[aria-pressed=true]")?.dataset.series ?? null;
    for (const button of chart.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("pointerenter", () => emphasise(chart, button.dataset.series));
      button.addEventListener("pointerleave", () => emphasise(chart, kept()));
      button.addEventListener("click", () => {
        const pressed = button.getAttribute("aria-pressed") === "true";
        for (const other of chart.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(!pressed));
        emphasise(chart, kept());
      });
    }
    for (const svg of chart.querySelectorAll(".panels svg")) {
      svg.addEventListener("pointermove", (event) => {
        const line = event.target.closest?.("[data-tip]");
        const mark = nearest(svg, event.clientX, event.clientY) ?? line;
        if (!mark) {
          tip.hidden = true;
          return emphasise(chart, kept());
        }
        show(mark.dataset.tip, event.clientX, event.clientY);
        emphasise(chart, mark.closest("[data-series]").dataset.series);
      });
      svg.addEventListener("pointerleave", () => {
        tip.hidden = true;
        emphasise(chart, kept());
      });
    }
  }
})();
