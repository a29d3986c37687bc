"use strict";
// The theme is the system's until a reader presses the button. Pages hear of a change by the event "theme".
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");
let chosenDark = null;  // what the button says against the system

const isDark = () => (chosenDark === null ? prefersDark.matches : chosenDark);

function showTheme(dark = isDark()) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  themeButton.textContent = dark ? "light theme" : "dark theme";
  document.dispatchEvent(new Event("theme"));
}

themeButton.addEventListener("click", () => {
  chosenDark = isDark() === prefersDark.matches ? !prefersDark.matches : null;
  showTheme();
});
prefersDark.addEventListener("change", () => showTheme());
showTheme();
