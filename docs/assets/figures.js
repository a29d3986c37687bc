// Draws the figures of a page, as wide as the page and in its theme, and again when a reader changes the theme.
const DRAWN = { responsive: true, displayModeBar: false };
const themed = (layout) => {
  const dark = document.body.dataset.mdColorScheme === "slate";
  const { width, paper_bgcolor, plot_bgcolor, ...rest } = layout;
  return { ...rest, template: TEMPLATES[dark ? "dark" : "light"], autosize: true };
};
const redrawn = [...document.querySelectorAll("div.figure")].map((place) => {
  const { data, layout } = JSON.parse(place.querySelector("script").textContent);
  return () => Plotly.react(place, data, themed(layout), DRAWN);
});
const drawn = redrawn.map((draw) => draw());

new MutationObserver(() => redrawn.forEach((draw) => draw())).observe(document.body, {
  attributeFilter: ["data-md-color-scheme"],
});
document.addEventListener("DOMContentLoaded", () =>
  Promise.all(drawn).then(() => (document.documentElement.dataset.drawn = "all")));
