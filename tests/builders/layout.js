// Look at pages in frames of several widths, each select in each of its states; see browser.py.
const faults = new Set(), looked = { pages: 0, states: 0 };
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(what) {
  for (let tries = 0; tries < 400 && !what(); tries++) await wait(50);
  return what();
}

const isShown = (element) => element.getClientRects().length > 0;
const undrawn = (page) =>
  [...page.querySelectorAll(".chart:not([data-drawn])")].filter(isShown).length;

function look(page, width, at, part = page.body) {
  const tell = (what) => faults.add(`${at} at ${width}: ${what}`);
  looked.states += 1;
  const over = page.documentElement.scrollWidth - width;
  if (over > 0) tell(`the page is ${over} pixels too wide`);
  for (const element of part.querySelectorAll("*")) {
    if (element.closest(".scroll, pre, svg") || !isShown(element)) continue;
    const { left, right } = element.getBoundingClientRect();
    if (right > width + 1 || left < -1) tell(`${element.tagName}.${element.className} sticks out`);
  }
  for (const svg of part.querySelectorAll(".chart svg")) {
    const box = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll(".role-axis text, .role-legend text")) {
      const own = text.getBoundingClientRect();
      if (own.width && (own.right > box.right + 2 || own.left < box.left - 2 || own.bottom > box.bottom + 2))
        tell(`"${text.textContent}" is clipped`);
    }
  }
  const headings = [...part.querySelectorAll("h2, h3")].filter(isShown);
  const around = !headings.length ? [] : [...page.querySelectorAll("select, p, td, .chart, li")].filter(isShown).map((each) => each.getBoundingClientRect());
  for (const heading of headings) {
    const { left, right, top } = heading.getBoundingClientRect();
    const above = around.filter((box) => box.bottom <= top + 1 && box.left < right && box.right > left);
    if (Math.min(...above.map((box) => top - box.bottom)) < 12) tell(`"${heading.textContent}" abuts what is above`);
  }
  if (width > 1000) for (const box of part.querySelectorAll("div:not(.wide) > .scroll"))
    if (box.scrollWidth > box.clientWidth + 1) tell(`the table "${box.ariaLabel}" is clipped`);
}

async function visit(name, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 2000px; border: 0`;
  frame.src = name;
  const loaded = new Promise((done) => frame.addEventListener("load", done));
  document.body.append(frame);
  await loaded;
  const page = frame.contentDocument;
  for (const each of page.querySelectorAll("details")) each.open = true;
  if (!(await until(() => !undrawn(page)))) faults.add(`${name} at ${width}: charts are not drawn`);
  const choices = [...page.querySelectorAll("header select")];
  for (const machine of choices[0]?.options ?? [null]) {
    const state = machine ? `${name}, ${machine.text}` : name;
    if (machine) {
      choices[0].value = machine.value;
      choices[0].dispatchEvent(new Event("change", { bubbles: true }));
      await until(() => !undrawn(page));
    }
    look(page, width, state);
    for (const select of [...page.querySelectorAll(".chart select")].filter(isShown)) {
      for (const option of select.options) {
        if (option.index === select.selectedIndex) continue;
        select.selectedIndex = option.index;
        for (const kind of ["input", "change"]) select.dispatchEvent(new Event(kind, { bubbles: true }));
        await wait(20);
        look(page, width, `${state}, ${option.text}`, select.closest("figure"));
      }
    }
  }
  frame.remove();
  looked.pages += 1;
}

addEventListener("load", async () => {
  try {
    for (const width of asked.widths) for (const name of asked.pages) await visit(name, width);
  } catch (error) { faults.add(String(error)); }
  document.title = JSON.stringify({ ...looked, faults: [...faults] });
});
