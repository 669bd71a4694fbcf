// Sort the table of arms by the column whose header is pressed; pressing again turns the order.
document.querySelectorAll("table.arms th button").forEach((button) => {
  button.addEventListener("click", () => {
    const header = button.parentElement;
    const down = header.getAttribute("aria-sort") === "ascending";
    const body = header.closest("table").tBodies[0];
    const key = (row) => row.cells[header.cellIndex].dataset.sort ?? row.cells[header.cellIndex].textContent;
    const order = (a, b) => (isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b));
    [...body.rows].sort((a, b) => (down ? order(b, a) : order(a, b))).forEach((row) => body.append(row));
    header.parentElement.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
  });
});
