// Charts. `vegaEmbed` is of the bundle before this.
(() => {
  "use strict";
  const config = "@config";

  async function draw(figure) {
    const spec = JSON.parse(figure.querySelector("script").textContent);
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

  for (const figure of document.querySelectorAll("figure:has(> .chart)")) draw(figure);
})();
