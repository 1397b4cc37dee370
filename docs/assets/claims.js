// Filters and sorts the table of claims: words, paper and verdict, which the address keeps; a heading sorts.
const form = document.getElementById("claim-filter");
if (form) {
  const [words, paper, verdict] = form.querySelectorAll("input, select");
  const rows = [...document.querySelectorAll("#claims tbody tr")];
  const state = new URLSearchParams(location.search);
  words.value = state.get("words") || "";
  paper.value = state.get("paper") || "";
  verdict.value = state.get("verdict") || "";
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden =
        (paper.value && row.dataset.paper !== paper.value) ||
        (verdict.value && row.dataset.verdict !== verdict.value) ||
        !wanted.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    form.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
    const query = new URLSearchParams();
    for (const [name, field] of [["words", words], ["paper", paper], ["verdict", verdict]])
      if (field.value) query.set(name, field.value);
    history.replaceState(null, "", (query.size ? `?${query}` : location.pathname) + location.hash);
  };
  const open = () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const details = row && row.querySelector("details");
    if (details && row.closest("#claims")) { details.open = true; row.scrollIntoView(); }
  };
  // A number counts by its value, a text by its letters; the verdicts' own order is that of the page.
  const body = document.querySelector("#claims tbody");
  const headings = [...document.querySelectorAll("#claims th")];
  const value = (row, i) => (i ? row.cells[i].textContent : rows.indexOf(row));
  headings.forEach((heading, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const turn = heading.ariaSort === "ascending" ? -1 : 1;
      headings.forEach((other) => { other.ariaSort = null; });
      heading.ariaSort = turn > 0 ? "ascending" : "descending";
      const compare = (a, b) => {
        const [x, y] = [value(a, i), value(b, i)], by = parseFloat(x) - parseFloat(y);
        if ((x === "") !== (y === "")) return x === "" ? 1 : -1;  // What has no number comes last.
        return turn * (by || String(x).localeCompare(String(y)));
      };
      body.append(...[...rows].sort(compare));
    });
  });
  form.addEventListener("input", filter);
  window.addEventListener("hashchange", open);
  filter();
  open();
}
