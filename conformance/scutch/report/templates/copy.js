
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    const program = button.closest("p").nextElementSibling;
    await navigator.clipboard.writeText(program.textContent);
    button.textContent = "Copied";
  });
}
