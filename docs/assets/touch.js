// A figure for every position of some sliders: all were worked out when the site was built.
for (const place of document.querySelectorAll("div.touch")) {
  const { data, layout, frames, sentences } = JSON.parse(place.querySelector("script").textContent);
  const inputs = [...place.querySelectorAll("input")], plot = place.querySelector(".touched");
  const title = place.querySelector(".touch-title").textContent;
  const shown = () => inputs.reduce((at, input) => at * (Number(input.max) + 1) + Number(input.value), 0);
  const draw = () => {
    const at = shown(), traces = data.map((trace, number) => ({ ...trace, ...frames[at][number] }));
    place.querySelector(".touch-says").textContent = sentences[at];
    plot.setAttribute("aria-label", `${title}. ${sentences[at]}`);
    return Plotly.react(plot, traces, themed(layout), DRAWN);
  };
  for (const input of inputs) {
    input.addEventListener("input", () => {
      const value = JSON.parse(input.dataset.values)[input.value];
      input.nextElementSibling.textContent = value;
      input.setAttribute("aria-valuetext", value);
      draw();
    });
  }
  redrawn.push(draw);
  drawn.push(draw());
}
