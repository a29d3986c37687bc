"use strict";
// The theme is the system's until a reader presses the button. Pages hear of a change by the event "theme".
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");
let systemDark = prefersDark.matches;  // kept: who reads it between a change and the next frame gets no event of it
let chosenDark = null;  // what the button says against the system

const isDark = () => chosenDark ?? systemDark;

function showTheme(dark = isDark()) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  themeButton.textContent = dark ? "light theme" : "dark theme";
  document.dispatchEvent(new Event("theme"));
}

themeButton.addEventListener("click", () => {
  systemDark = prefersDark.matches;
  chosenDark = isDark() === systemDark ? !systemDark : null;
  showTheme();
});
prefersDark.addEventListener("change", (event) => {
  systemDark = event.matches;
  showTheme();
});
showTheme();

// How plots are drawn, and fitted to paper (CSS pixels between the margins of A4) and back to the screen.
const CONFIG = { responsive: true, displayModeBar: false };
const PAPER = { autosize: false, width: 680 }, SCREEN = { autosize: true, width: null };
