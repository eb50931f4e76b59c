// What htmx does not do by itself: the live stream, ages beside times, keys, and forms that send themselves.
"use strict";

(() => {
  const body = document.body;
  const freshness = document.getElementById("freshness");
  let stream = null;
  let lastBeatAt = 0;

  const say = (text, kind) => {
    if (!freshness) return;
    freshness.textContent = text;
    freshness.dataset.kind = kind;
  };

  const open = () => {
    if (stream || !body.dataset.live || document.hidden) return;
    stream = new EventSource(body.dataset.live);
    stream.addEventListener("pulse", (event) => {
      lastBeatAt = Date.now();
      freshness.dataset.beat = event.data;
      say("live", "good");
      htmx.trigger(body, "pulse");
      body.dispatchEvent(new CustomEvent("farmiq:pulse"));
    });
    stream.addEventListener("error", () => say("console does not answer", "bad"));
  };

  const close = () => {
    if (stream) stream.close();
    stream = null;
    say("paused", "none");
  };

  const age = (seconds) => {
    if (seconds < 0) return `in ${age(-seconds)}`.replace(" ago", "");
    if (seconds < 90) return `${Math.round(seconds)} s ago`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
    if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
    return `${Math.round(seconds / 86400)} d ago`;
  };

  const showAges = () => {
    for (const element of document.querySelectorAll("time[datetime]")) {
      const text = age((Date.now() - Date.parse(element.dateTime)) / 1000);
      if (element.title !== text) element.title = text;
      const beside = element.nextElementSibling;
      if (beside && beside.classList.contains("age")) beside.textContent = text;
    }
    if (stream && lastBeatAt && Date.now() - lastBeatAt > 15000) {
      say(`last news ${age((Date.now() - lastBeatAt) / 1000)}`, "warn");
    }
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", () => stream && stream.close());
  document.addEventListener("change", (event) => {
    if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    const search = document.getElementById("search");
    if (event.key === "/" && !typing && search) {
      event.preventDefault();
      search.focus();
    }
    if (event.key === "Escape" && event.target === search) {
      search.value = "";
      document.getElementById("found").replaceChildren();
      search.blur();
    }
  });
  document.addEventListener("click", (event) => {
    const copier = event.target.closest("[data-copy]");
    if (copier) navigator.clipboard.writeText(copier.dataset.copy).then(() => { copier.textContent = "copied"; });
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  // An answer that is not a success still says what happened: show it where the answer would have gone.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const status = event.detail.xhr.status;
    if (status >= 400 && status !== 401) event.detail.shouldSwap = true;
  });
  document.addEventListener("htmx:afterSettle", showAges);
  setInterval(showAges, 1000);
  showAges();
  open();
})();
