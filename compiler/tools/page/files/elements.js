"use strict";
// Makes elements of a page. Text of data becomes text nodes only.

const byId = name => document.getElementById(name);

/// Children are nodes or text.
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/// Returns a patch of `of.colour`, a custom property.
function swatch(of) {
  const made = element("span", { className: "swatch" });
  made.style.setProperty("--colour", `var(${of.colour})`);
  return made;
}

/// `rows`: lists of strings and nodes. `kinds`: a class for each column.
function table(heads, rows, kinds = []) {
  const cells = (name, row) => row.map((cell, i) => element(name, { className: kinds[i] || "" }, cell === null || cell === undefined ? "–" : cell));
  return element("div", { className: "scroll" },
    element("table", {}, element("thead", {}, element("tr", {}, ...cells("th", heads))),
      element("tbody", {}, ...rows.map(row => element("tr", {}, ...cells("td", row))))));
}
