// The grid by keyboard: one stop for Tab, arrows inside, and the place is kept when the grid is drawn anew.
"use strict";

(() => {
  const cellsOf = (row) => [...row.querySelectorAll("a.cell")];
  let kept = null;

  const settle = () => {
    const cells = document.querySelectorAll(".grid a.cell");
    const chosen = [...cells].find((cell) => cell.getAttribute("href") === kept) || cells[0];
    for (const cell of cells) {
      cell.tabIndex = cell === chosen ? 0 : -1;
      if (!cell.title) cell.title = cell.getAttribute("aria-label");
    }
  };

  const step = (cell, key) => {
    const row = cell.closest("tr");
    const column = cellsOf(row).indexOf(cell);
    const beside = { ArrowUp: row.previousElementSibling, ArrowDown: row.nextElementSibling };
    if (key === "ArrowLeft") return cellsOf(row)[column - 1];
    if (key === "ArrowRight") return cellsOf(row)[column + 1];
    if (key === "Home") return cellsOf(row)[0];
    if (key === "End") return cellsOf(row).at(-1);
    return beside[key] ? cellsOf(beside[key])[column] : null;
  };

  document.addEventListener("keydown", (event) => {
    const cell = event.target.closest(".grid a.cell");
    if (!cell || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const next = step(cell, event.key);
    if (!next) return;
    kept = next.getAttribute("href");
    settle();
    next.focus();
  });
  document.addEventListener("focusin", (event) => {
    const cell = event.target.closest(".grid a.cell");
    if (cell) kept = cell.getAttribute("href");
  });
  let hadFocus = false;
  document.addEventListener("htmx:beforeSwap", (event) => {
    hadFocus = event.detail.target.id === "grid" && Boolean(document.activeElement.closest(".grid"));
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    settle();
    if (event.detail.target.id === "grid" && hadFocus) {
      const cell = document.querySelector('.grid a.cell[tabindex="0"]');
      if (cell) cell.focus();
    }
    if (event.detail.target.id === "cell") event.detail.target.scrollIntoView({ block: "nearest" });
  });
  settle();
})();
