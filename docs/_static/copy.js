// A button on every block of code that copies it, without prompts of a console.
document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return;
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", async () => {
      const lines = block.querySelector("pre").textContent.trimEnd().split("\n");
      const typed = lines.filter((line) => /^(>>>|\.\.\.)( |$)/.test(line));
      const text = typed.length ? typed.map((line) => line.slice(4)).join("\n") : lines.join("\n");
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }
});
