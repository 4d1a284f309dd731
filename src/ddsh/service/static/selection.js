// Selection of cards: by click, shift-click and keyboard.

import { createElement, neighbourOf } from "./components.js";

export class Selection {
  constructor(grid, onChange) {
    this.grid = grid;
    this.onChange = onChange;
    this.enabled = false;
    this.ids = new Set();
    this.anchor = null; // where a range starts
    this.base = new Set(); // what was selected before the range
    grid.addEventListener("click", (event) => this.click(event), { capture: true });
    grid.addEventListener("keydown", (event) => this.press(event));
    new MutationObserver(() => this.update()).observe(grid, { childList: true });
  }

  cards() {
    return [...this.grid.querySelectorAll("a.card")];
  }

  selectedCards() {
    return this.cards().filter((card) => this.ids.has(card.dataset.id));
  }

  enable(enabled) {
    if (!enabled) {
      this.grid.querySelectorAll(".select").forEach((box) => box.remove());
      this.grid.querySelectorAll(".is-selected").forEach((card) => card.classList.remove("is-selected"));
    }
    this.enabled = enabled;
    this.grid.classList.toggle("editing", enabled);
    this.select([]);
  }

  select(ids) {
    this.ids = new Set(ids);
    [this.anchor, this.base] = [null, new Set(this.ids)];
    this.update();
  }

  selectAll() {
    this.select(this.cards().map((card) => card.dataset.id));
  }

  toggle(id) {
    if (!this.ids.delete(id)) this.ids.add(id);
    [this.anchor, this.base] = [id, new Set(this.ids)];
    this.update();
  }

  // Select from the anchor to a card, as file managers do.
  extend(id) {
    this.anchor ??= id;
    const order = this.cards().map((card) => card.dataset.id);
    const [first, last] = [order.indexOf(this.anchor), order.indexOf(id)].sort((a, b) => a - b);
    this.ids = new Set([...this.base, ...order.slice(first, last + 1)]);
    this.update();
  }

  // Cards come and go: what is no longer shown is not selected.
  update() {
    if (this.enabled) {
      const cards = this.cards();
      const shown = new Set(cards.map((card) => card.dataset.id));
      for (const ids of [this.ids, this.base]) ids.forEach((id) => shown.has(id) || ids.delete(id));
      if (!shown.has(this.anchor)) this.anchor = null;
      for (const card of cards) {
        const selected = this.ids.has(card.dataset.id);
        card.classList.toggle("is-selected", selected);
        const box = card.parentElement.querySelector(".select") ?? this.createBox(card);
        box.setAttribute("aria-checked", selected);
      }
    }
    this.onChange();
  }

  createBox(card) {
    const box = createElement("button", { type: "button", className: "select" });
    box.setAttribute("role", "checkbox");
    box.setAttribute("aria-label", `Select ${card.title}`);
    card.before(box);
    return box;
  }

  // A click searches, as always; on the box, with Ctrl, or while something is selected, it selects.
  click(event) {
    const card = event.target.closest("li")?.querySelector("a.card");
    if (!this.enabled || !card) return;
    const selects = event.target.closest(".select") || event.ctrlKey || event.metaKey || this.ids.size > 0;
    if (event.shiftKey) this.extend(card.dataset.id);
    else if (selects) this.toggle(card.dataset.id);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  press(event) {
    const card = event.target.closest("li")?.querySelector("a.card");
    if (!this.enabled || !card) return;
    const next = event.shiftKey ? neighbourOf(this.cards(), card, event.key) : null;
    if (next) {
      if (this.anchor === null) this.extend(card.dataset.id);
      this.extend(next.dataset.id);
      next.focus();
    } else if (event.key === " " && event.target === card) {
      if (event.shiftKey) this.extend(card.dataset.id);
      else this.toggle(card.dataset.id);
    } else {
      return;
    }
    event.preventDefault();
  }
}
