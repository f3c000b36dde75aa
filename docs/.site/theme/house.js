// What a keyboard and a screen reader need and Material leaves out.
const mend = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
  for (const bar of document.querySelectorAll(".md-code__nav")) bar.setAttribute("role", "none")
  for (const nav of document.querySelectorAll("nav[aria-labelledby]")) {  // by an icon, which has no words
    if (document.getElementById(nav.getAttribute("aria-labelledby"))?.textContent.trim()) continue
    nav.setAttribute("aria-label", nav.querySelector(".md-nav__title")?.textContent.trim() ?? "")
    nav.removeAttribute("aria-labelledby")
  }
  for (const head of document.querySelectorAll("th:empty"))
    head.replaceWith(document.createElement("td"))
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap"))
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0
  for (const code of document.querySelectorAll("pre > code"))
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })
addEventListener("resize", mend)
mend()
