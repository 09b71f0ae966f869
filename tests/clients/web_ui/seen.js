/**
 * Return the text of an element that a person can see, blocks separated by spaces: what is shown, not transparent, in
 * view or in reach by scrolling, and neither cut off nor covered. What is scrolled for that stands as before afterwards.
 */
(root) => {
  const MOST_LINES = 40; // of a text, looked at; of a longer one as many, evenly spread
  const moved = new Map();

  const scrolls = (box) =>
    box === document.scrollingElement || /auto|scroll/.test(getComputedStyle(box).overflow);
  const frame = (box) =>
    box === document.scrollingElement
      ? { left: 0, top: 0, right: innerWidth, bottom: innerHeight }
      : box.getBoundingClientRect();

  /** Whether a point of an element's text is on the screen, with nothing in front. */
  function isInFront(element, x, y) {
    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return false;
    for (let box = element; box; box = box.parentElement) {
      const { left, top, right, bottom } = frame(box);
      const { overflow, display } = getComputedStyle(box);
      const isCut = !/^(visible|contents)$/.test(overflow) && !/^(inline|contents)$/.test(display);
      if (isCut && (x < left || x > right || y < top || y > bottom)) return false;
    }
    const hit = document.elementFromPoint(x, y);
    return Boolean(hit) && (element.contains(hit) || hit.contains(element));
  }

  function scrollTo(element, point) {
    for (let box = element; box; box = box.parentElement) {
      if (!scrolls(box)) continue;
      const { left, top, right, bottom } = frame(box);
      const [x, y] = point();
      if (!moved.has(box)) moved.set(box, [box.scrollLeft, box.scrollTop]);
      if (x < left || x > right) box.scrollLeft += x - (left + right) / 2;
      box.scrollTop += y - (top + bottom) / 2;
    }
  }

  function isReached(element, point) {
    if (isInFront(element, ...point())) return true;
    scrollTo(element, point);
    return isInFront(element, ...point());
  }

  /** Whether both ends of every line of a range can be seen. */
  function isSeen(range, element) {
    const count = range.getClientRects().length;
    const step = Math.max(1, Math.floor(count / MOST_LINES));
    for (let line = 0; line < count; line += step) {
      const rect = () => range.getClientRects()[line];
      const { width, height } = rect();
      if (!width || !height) continue; // a line break
      const inset = Math.min(2, width / 2);
      const ends = [(box) => box.left + inset, (box) => box.right - inset];
      if (!ends.every((end) => isReached(element, () => [end(rect()), (rect().top + rect().bottom) / 2]))) return false;
    }
    return count > 0;
  }

  /** What can be seen of a text of which a part cannot: its characters, or of a long one its words. */
  function seenParts(text, element) {
    const range = document.createRange();
    const parts = text.data.length > 200 ? /\S+\s*/g : /./gsu;
    return [...text.data.matchAll(parts)]
      .filter(({ index, 0: part }) => {
        range.setStart(text, index);
        range.setEnd(text, index + part.trimEnd().length);
        return isSeen(range, element);
      })
      .map(([part]) => part)
      .join("");
  }

  function block(element) {
    while (element !== root && /^(inline|contents)$/.test(getComputedStyle(element).display)) element = element.parentElement;
    return element;
  }

  let found = "";
  let before = null;
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const element = text.parentElement;
    const isShown = element.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true });
    const folded = element.closest("details:not([open])"); // which counts as visible itself
    if (!isShown || (folded && !folded.querySelector(":scope > summary")?.contains(element))) continue;
    const within = block(element);
    if (before && before !== within) found += " ";
    before = within;
    if (!text.data.trim()) {
      found += text.data;
      continue;
    }
    const range = document.createRange();
    range.selectNodeContents(text);
    found += isSeen(range, element) ? text.data : seenParts(text, element);
  }
  for (const [box, [left, top]] of [...moved].reverse()) Object.assign(box, { scrollLeft: left, scrollTop: top });
  return found.replace(/\s+/g, " ").trim();
}
