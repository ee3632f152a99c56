// The search takes a leading dash for "without"; whoever types --vectors looks for it.
document.addEventListener("input", ({ target }) => {
  if (target.matches(".md-search__input"))
    target.value = target.value.replace(/(^|\s)[-+]+/g, "$1");
});
