// Draws every figure of a notebook's page, as wide as the page.
const drawn = [...document.querySelectorAll("div.figure")].map((place) => {
  const { data, layout } = JSON.parse(place.querySelector("script").textContent);
  delete layout.width;
  return Plotly.newPlot(place, data, { ...layout, autosize: true }, { responsive: true, displaylogo: false });
});
Promise.all(drawn).then(() => (document.documentElement.dataset.drawn = "all"));
