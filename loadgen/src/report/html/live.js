// Replaces the figures of a run that is under way, unless values of a chart are being read.
async function renew() {
  if (plots.some((plot) => !plot.tip.hidden)) return;
  const state = document.querySelector(".state");
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("main").replaceWith(next.querySelector("main"));
    begin();
  } catch {
    if (state) state.textContent = "The run has ended, or cannot be reached: these are its last figures.";
  }
}
setInterval(renew, 2000);
