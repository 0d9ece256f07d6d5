// Charts, and tables that sort and filter. `vegaEmbed` is of the bundle before this.
(() => {
  "use strict";
  const config = "@config";

  // A dataset comes as columns; null is a field that its row does not have.
  function rows(columns) {
    const names = Object.keys(columns), first = columns[names[0]] ?? [];
    return first.map((_, row) => Object.fromEntries(
      names.map((name) => [name, columns[name][row]]).filter(([, value]) => value !== null)));
  }

  async function draw(figure) {
    figure.dataset.begun = "yes";
    const spec = JSON.parse(figure.querySelector("script").textContent);
    for (const name in spec.datasets) spec.datasets[name] = rows(spec.datasets[name]);
    const place = figure.querySelector(".chart");
    const { view } = await vegaEmbed(place, spec, {
      renderer: "svg", actions: false, config, tooltip: { theme: "page" },
    });
    const told = figure.querySelector("output");
    if (told) view.addEventListener("click", (event, item) => {
      if (item?.datum?.command) told.textContent = item.datum.command;
    });
    place.dataset.drawn = "yes";
  }

  // 2¹⁸, 1,048,576, 8.39 MB, 1.9×: as numbers; what is no number comes last.
  const raised = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const units = { bytes: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
  function value(cell) {
    const text = (cell?.firstChild?.textContent ?? "").trim();
    const power = text.match(/^2([⁰¹²³⁴⁵⁶⁷⁸⁹]+)/);
    if (power) return 2 ** Number([...power[1]].map((digit) => raised.indexOf(digit)).join(""));
    const number = text.replaceAll(",", "").replace("−", "-").match(/^(-?[\d.]+)\s*(\w*)/);
    return number ? Number(number[1]) * (units[number[2]] ?? 1) : NaN;
  }

  function compare(one, other) {
    const [a, b] = [value(one), value(other)];
    if (isNaN(a) && isNaN(b)) return (one?.textContent ?? "").localeCompare(other?.textContent ?? "");
    if (isNaN(a) || isNaN(b)) return isNaN(a) ? Infinity : -Infinity;
    return a - b;
  }

  function sortable(table) {
    const headings = [...table.tHead.rows].at(-1).cells, body = table.tBodies[0];
    [...headings].forEach((heading, column) => {
      heading.innerHTML = `<button type="button">${heading.innerHTML}</button>`;
      heading.firstChild.addEventListener("click", () => {
        const down = heading.ariaSort === "ascending";
        for (const each of headings) each.ariaSort = null;
        heading.ariaSort = down ? "descending" : "ascending";
        const rows = [...body.rows].sort((one, other) => {
          const order = compare(one.cells[column], other.cells[column]);
          return Number.isFinite(order) && down ? -order : order;
        });
        body.append(...rows);
      });
    });
  }

  function filterable(table) {
    const box = document.createElement("input");
    Object.assign(box, { type: "search", placeholder: "Filter rows", className: "filter" });
    box.setAttribute("aria-label", `Filter rows: ${table.getAttribute("aria-label")}`);
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase().split(/\s+/);
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
    table.closest(".scroll").before(box);
  }

  for (const table of document.querySelectorAll(".scroll > table")) {
    const rows = table.tBodies[0]?.rows.length ?? 0;
    if (rows > 1) sortable(table);
    if (rows > 10) filterable(table);
  }

  // One machine at a time, that of the address or the first; without scripts all are shown.
  const owned = [...document.querySelectorAll("section[data-machine]")];
  const choice = document.createElement("select");
  choice.append(...[...new Set(owned.map((each) => each.dataset.machine))].map((each) => new Option(each)));
  function show() {
    for (const each of owned) each.hidden = each.dataset.machine !== choice.value;
    const links = [...document.querySelectorAll("nav a")];
    for (const link of links) link.parentElement.hidden = document.querySelector(link.hash).hidden;
    if (links[0]) links[0].closest("nav").hidden = links.filter((each) => !each.parentElement.hidden).length < 2;
    for (const figure of document.querySelectorAll("section:not([hidden]) figure:has(> .chart)"))
      if (!figure.dataset.begun) draw(figure);
  }
  function follow() {
    const place = document.getElementById(location.hash.slice(1));
    const named = place && place.closest("[data-machine]");
    if (named) choice.value = named.dataset.machine;
    show();
    if (place) place.scrollIntoView();
  }
  if (choice.length > 1) {
    const label = document.createElement("label");
    label.append("Machine ", choice);
    document.querySelector("header").append(label);
    choice.addEventListener("change", show);
    addEventListener("hashchange", follow);
  }
  follow();
})();
