#!/usr/bin/env python3
"""Tests the page of imka deploy --what-if in a headless Chromium.

    what_if_page_browser_test.py IMKA_PROGRAM

Exit code 77 (skipped) if chromium, chromedriver, selenium or Chart.js are not installed, or imka does not read ONNX.
"""
import json
import os
import random
import sys

from browser import SKIPPED, Browser, imka, main
from deploy_page_browser_test import MODELS, write_npy
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


class WhatIf(Browser):
    @classmethod
    def write_page(cls, folder, page):
        draw = random.Random(1)
        rows = os.path.join(folder, "x.npy")
        write_npy(rows, (60, 12), "f4", [draw.gauss(0, 1) for _ in range(60 * 12)])
        cls.printed = json.loads(imka("deploy", os.path.join(MODELS, "mlp_opset17.onnx"), "--calibrate", rows,
                                      "--what-if", "core.input_levels=7,31,127", "--what-if", "core.rows=16,256",
                                      "--explain-chips", "2", "--page", page, "--json", "--quiet"))

    def setUp(self):
        super().setUp()
        self.model = json.loads(self.run_js("return document.getElementById('model').textContent"))

    def chart(self, name):
        return f"Chart.getChart(document.getElementById('c-{name}'))"

    def drawn(self, name):
        """Numbers of the chips that a chart shows as best and as others."""
        return self.run_js(f"return {self.chart(name)}.data.datasets.map((set) => set.data.map((p) => p.i))")

    def place(self, name, chip):
        """The canvas, and the position of a mark relative to the middle of the canvas."""
        canvas = self.browser.find_element(By.ID, "c-" + name)
        self.run_js("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", canvas)
        x, y = self.run_js(f"""const c = {self.chart(name)};
            for (const [k, set] of c.data.datasets.entries()) for (const [j, p] of set.data.entries())
                if (p.i === arguments[0]) {{ const e = c.getDatasetMeta(k).data[j]; return [e.x, e.y]; }}""", chip)
        width, height = self.run_js("return [arguments[0].clientWidth, arguments[0].clientHeight]", canvas)
        return canvas, round(x - width / 2), round(y - height / 2)

    def chosen(self):
        return self.run_js("return [...document.querySelectorAll('tr.on')].map((e) => Number(e.dataset.chip))")

    def test_nothing_is_logged_and_nothing_is_fetched(self):
        self.check_quiet_and_offline()

    def test_no_text_is_missing(self):
        self.check_no_text_is_missing()

    def test_shows_what_the_program_prints(self):
        self.assertEqual(len(self.model["points"]), 6)
        for point, printed in zip(self.model["points"], self.printed["chips"]):
            self.assertEqual(point["energy_joules"], printed["energy_joules"])
            self.assertEqual(point["best"], printed["best"])
            self.assertEqual(dict(zip([a["key"] for a in self.model["axes"]], point["values"])), printed["constants"])

    def test_both_charts_mark_the_best_chips(self):
        best = [i for i, p in enumerate(self.model["points"]) if p["best"]]
        others = [i for i, p in enumerate(self.model["points"]) if not p["best"]]
        self.assertTrue(best)
        for name in ["energy", "latency"]:
            self.assertEqual(self.drawn(name), [best, others])
        rows = self.run_js("return [...document.querySelectorAll('#chips tbody tr')].map((r) => r.cells[0].textContent)")
        self.assertEqual([i for i, text in enumerate(rows) if text == "yes"], best)

    def test_hover_shows_the_setting(self):
        canvas, x, y = self.place("energy", 2)
        ActionChains(self.browser).move_to_element_with_offset(canvas, x, y).perform()
        title, lines = self.run_js(f"const t = {self.chart('energy')}.tooltip; return [t.title[0], t.body.flatMap((b) => b.lines)]")
        self.assertEqual(title, "core.input_levels = 31, core.rows = 16")
        self.assertTrue(any(line.startswith("error ") for line in lines), lines)
        self.assertTrue(any(line.startswith("energy ") and "to" in line for line in lines), lines)
        self.assertTrue(any(line.startswith("latency ") for line in lines), lines)

    def test_a_click_on_a_mark_highlights_its_row_and_escape_clears(self):
        canvas, x, y = self.place("latency", 4)
        ActionChains(self.browser).move_to_element_with_offset(canvas, x, y).click().perform()
        chosen = self.chosen()
        self.assertEqual(len(chosen), 1)
        self.assertEqual(self.model["points"][chosen[0]]["latency_seconds"], self.model["points"][4]["latency_seconds"])
        ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        self.assertEqual(self.chosen(), [])

    def test_a_click_on_a_row_enlarges_its_marks(self):
        self.run_js("document.querySelector('#chips tr[data-chip=\"3\"]').click()")
        self.assertEqual(self.chosen(), [3])
        for name in ["energy", "latency"]:
            radii = self.run_js(f"""const c = {self.chart(name)};
                return c.data.datasets.flatMap((set, k) => set.data.map((p, j) => [p.i, c.getDatasetMeta(k).data[j].options.radius]))""")
            self.assertEqual([i for i, radius in radii if radius > 10], [3])

    def test_assumptions_have_sources(self):
        text = self.run_js("return document.getElementById('assumptions').innerText")
        for words in ["converter_energy_share", "0.25 to 0.75", "assumption"]:
            self.assertIn(words, text)

    def test_follows_the_system(self):
        self.check_system_theme()

    def test_fits_a_phone(self):
        self.on_a_phone(self.check_no_text_is_missing)


if __name__ == "__main__":
    parts = json.loads(imka("doctor", "--json"))
    if not parts["onnx"] or not parts["chart_js"]:
        print("skipped: this imka does not read ONNX models, or Chart.js is not installed (scripts/setup --test)")
        sys.exit(SKIPPED)
    main()
