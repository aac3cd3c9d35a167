"""What a page looks like in a real browser: its pixels, its contrast, the boxes of its words."""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
needs_chromium = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Chromium (apt-get install chromium)"
)
SCREENS = ("light 1280", "dark 1280", "light 390", "dark 390")


def open_page(browser: Browser, screen: str) -> Page:
    """A page on a screen such as 'dark 390'."""
    scheme, width = screen.split()
    context = browser.new_context(
        viewport={"width": int(width), "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    return context.new_page()


def pixels(page: Page, image: bytes) -> NDArray[np.uint8]:
    """The pixels of a PNG image, decoded by the browser: rows, columns, and red, green, blue.

    On a page of its own: ours allow themselves no images.
    """
    blank = page.context.new_page()
    width, height, data = blank.evaluate(_DECODE, b64encode(image).decode())
    blank.close()
    flat = np.frombuffer(b64decode(data.partition(",")[2]), dtype=np.uint8)
    return flat.reshape(height, width, 4)[:, :, :3]


def luminance(colours: NDArray[np.uint8]) -> NDArray[np.float64]:
    """How bright colours are to the eye, from 0 to 1."""
    parts = colours.astype(np.float64) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))


def worst_contrast(page: Page) -> dict[str, Any]:
    """The words that stand out least from their ground, and by how much."""
    found: dict[str, Any] = page.evaluate(_CONTRAST)
    return found


def words_at_fault(page: Page) -> list[str]:
    """Words of drawings that reach out of them, or that lie on others."""
    found: list[str] = page.evaluate(_FAULTS)
    return found


_DECODE = """async data => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + data;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const all = context.getImageData(0, 0, image.width, image.height).data;
  const reader = new FileReader();
  const done = new Promise(resolve => { reader.onload = resolve; });
  reader.readAsDataURL(new Blob([all]));
  await done;
  return [image.width, image.height, reader.result];
}"""

_FAULTS = """() => {
  const faults = [];
  for (const drawing of document.querySelectorAll('svg.picture')) {
    if (!drawing.getClientRects().length || drawing.parentElement.closest('svg')) continue;
    const whole = drawing.getBoundingClientRect();
    const boxes = [...drawing.querySelectorAll('text')].map(one => {
      const {left, right, top, bottom} = one.getBoundingClientRect();
      return {text: one.textContent, left, right, top, bottom};
    });
    for (const box of boxes)
      if (box.left < whole.left - 1 || box.right > whole.right + 1 ||
          box.top < whole.top - 2 || box.bottom > whole.bottom + 2)
        faults.push('out: ' + box.text);
    boxes.forEach((a, place) => boxes.slice(place + 1).forEach(b => {
      if (a.left < b.right - 1 && b.left < a.right - 1 &&
          a.top < b.bottom - 3 && b.top < a.bottom - 3)
        faults.push('on each other: ' + a.text + ' | ' + b.text);
    }));
  }
  return faults;
}"""

_CONTRAST = """() => {
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const linear = c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
    const [x, y, z] = [r, g, b].map(c => linear(c / 255));
    return .2126 * x + .7152 * y + .0722 * z;
  };
  const ground = node => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  let worst = {ratio: 99, text: ''};
  for (const node of document.querySelectorAll('body *')) {
    const words = [...node.childNodes].filter(child => child.nodeType === 3);
    const text = words.map(word => word.data.trim()).join('');
    if (!text || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const ink = parse(node.namespaceURI.endsWith('svg') ? style.fill : style.color);
    const [a, b] = [luminance(ink), luminance(ground(node))].sort((p, q) => q - p);
    const ratio = (a + .05) / (b + .05);
    if (ratio < worst.ratio) worst = {ratio, text};
  }
  return worst;
}"""
