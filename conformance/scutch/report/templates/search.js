
const typed = document.getElementById("search");
typed.addEventListener("input", () => {
  const words = typed.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll(".matrix tbody tr:not(.area)")) {
    const text = (row.dataset.text + " " + row.textContent).toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  for (const area of document.querySelectorAll(".matrix tbody")) {
    area.hidden = !area.querySelector("tr:not(.area):not([hidden])");
  }
});
