
const table = document.querySelector(".matrix");
const groups = [...table.querySelectorAll("tbody")];
const typed = document.getElementById("search");
const unfold = document.getElementById("unfold");
const choices = ["show", "level"];
const settled = { open: "settled", differ: "agreed" };  // the class of rows that a choice leaves out
const chosen = (name) => document.querySelector(`input[name=${name}]:checked`).id.slice(name.length + 1);

function open(group, wanted) {
  group.classList.toggle("open", wanted);
  group.querySelector(".fold").setAttribute("aria-expanded", wanted);
  unfold.textContent = groups.every((one) => one.classList.contains("open"))
    ? "close all groups" : "open all groups";
}

function search() {
  const [show, level] = choices.map(chosen);
  const words = typed.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of table.querySelectorAll("tbody tr:not(.area)")) {
    const text = (row.dataset.text + " " + row.textContent).toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  const wanted = (row) => !row.hidden && !row.classList.contains(settled[show])
    && (level === "all" || row.classList.contains(level));
  for (const group of groups) {
    group.hidden = ![...group.querySelectorAll("tr:not(.area)")].some(wanted);
  }
  table.classList.toggle("filtered", words.length > 0 || show !== "all");
}

/* The address holds what is filtered, so that it can be sent: #search=scan&show=open */
function write() {
  const state = new URLSearchParams();
  if (typed.value) state.set("search", typed.value);
  for (const name of choices) if (chosen(name) !== "all") state.set(name, chosen(name));
  history.replaceState(null, "", "#" + state);
}

function read() {
  const fragment = decodeURIComponent(location.hash.slice(1));
  const named = document.getElementById(fragment);
  if (named && groups.includes(named)) {
    open(named, true);
    named.scrollIntoView();
  }
  if (!fragment.includes("=")) return;
  const state = new URLSearchParams(location.hash.slice(1));
  typed.value = state.get("search") || "";
  for (const name of choices) {
    const input = document.getElementById(`${name}-${state.get(name) || "all"}`);
    if (input) input.checked = true;
  }
  search();
}

table.classList.add("folds");
unfold.hidden = false;
unfold.addEventListener("click", () => {
  const wanted = !groups.every((one) => one.classList.contains("open"));
  for (const group of groups) open(group, wanted);
});
const short = table.querySelectorAll("tbody tr:not(.area)").length <= 40;
for (const group of groups) {
  open(group, short);
  group.querySelector(".fold").addEventListener("click", () => open(group, !group.classList.contains("open")));
}
typed.addEventListener("input", () => { search(); write(); });
for (const name of choices) {
  for (const input of document.querySelectorAll(`input[name=${name}]`)) {
    input.addEventListener("change", () => { search(); write(); });
  }
}
window.addEventListener("hashchange", read);
read();
