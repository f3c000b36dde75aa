// What a keyboard and a screen reader need and Material leaves out.
const mend = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
  for (const bar of document.querySelectorAll(".md-code__nav")) bar.setAttribute("role", "none")
  for (const code of document.querySelectorAll("pre > code"))
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })
addEventListener("resize", mend)
mend()
