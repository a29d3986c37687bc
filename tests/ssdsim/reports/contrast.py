"""Which texts of an open page are too faint, by WCAG's contrast, as a JavaScript expression."""

FAINT_TEXTS = """(() => {
    const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
    const channel = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parts(getComputedStyle(at).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const contrast = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const own = (element) => [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const shown = (element) => element.getClientRects().length && !element.closest('script, style, .skip, .unseen');
    return [...document.body.querySelectorAll('*')].filter((e) => own(e) && shown(e)).filter((e) => {
        const style = getComputedStyle(e), svg = e.namespaceURI.endsWith('svg');
        return contrast(parts(svg ? style.fill : style.color), behind(e)) < 4.5;
    }).map((e) => `${e.tagName} ${e.className.baseVal ?? e.className}: ${e.textContent.slice(0, 40)}`);
})()"""
