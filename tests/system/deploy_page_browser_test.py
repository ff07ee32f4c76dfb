#!/usr/bin/env python3
"""Tests the page of a deployed model in a headless Chromium.

    deploy_page_browser_test.py IMKA_PROGRAM

Exit code 77 (skipped) if chromium, chromedriver or selenium are not installed, or imka does not read ONNX.
"""
import json
import os
import random
import struct
import sys

from browser import SKIPPED, Browser, imka, main
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from urllib.parse import quote

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models")


def write_npy(path, shape, kind, values):
    """An NPY file; kind: 'f4' or 'i8'."""
    head = "{'descr': '<%s', 'fortran_order': False, 'shape': %s, }" % (kind, tuple(shape))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(struct.pack("<%d%s" % (len(values), {"f4": "f", "i8": "q"}[kind]), *values))


def write_images(path):
    draw = random.Random(1)
    write_npy(path, (40, 3, 16, 16), "f4", [draw.gauss(0, 1) for _ in range(40 * 3 * 16 * 16)])


def write_tokens(path):
    draw = random.Random(2)
    write_npy(path, (40, 6), "i8", [draw.randrange(20) for _ in range(240)])


class DeployPage(Browser):
    """A page of imka deploy; the classes below contain the tests."""
    arguments = None

    @classmethod
    def write_page(cls, folder, page):
        if cls.arguments is None:
            super().write_page(folder, page)
        cls.total = json.loads(imka("deploy", *cls.arguments(folder), "--page", page, "--json"))

    def setUp(self):
        super().setUp()
        self.model = json.loads(self.run_js("return document.getElementById('model').textContent"))

    def highlighted(self):
        """The layer that each view highlights; one value if they agree."""
        return self.run_js("""
            const on = (selector) => [...new Set([...document.querySelectorAll(selector)].map((e) => Number(e.dataset.layer)))].sort();
            return { floor: on('#floor-plan .on'), costs: on('#costs .on'), error: on('#error .on'), table: on('#layers tr.on'),
                     panel: document.querySelector('.panel h2').textContent, hash: location.hash };""")

    def assert_chosen(self, layer):
        seen = self.highlighted()
        name = self.model["layers"][layer]["name"]
        views = ["floor", "costs", "table"] + (["error"] if "error" in self.model else [])
        for view in views:
            self.assertEqual(seen[view], [layer], view)
        self.assertEqual(seen["panel"], name)
        self.assertEqual(seen["hash"], "#layer=" + quote(name, safe="!*'()-_.~"))
        spans = self.spans_of(layer)
        self.assertEqual(self.dimmed(spans[0]), False, "its spans are drawn in full")
        for other in range(len(self.model["layers"])):
            strangers = [s for s in self.spans_of(other) if layer not in self.layers_of(s)]
            if strangers:
                self.assertEqual(self.dimmed(strangers[0]), True, "other spans are dimmed")
                break

    def assert_nothing_chosen(self):
        seen = self.highlighted()
        for view in ["floor", "costs", "error", "table"]:
            self.assertEqual(seen[view], [])
        self.assertEqual(seen["hash"], "")
        self.assertEqual(seen["panel"], "No layer selected")

    def layers_of(self, span):
        return [span[2]] if span[2] >= 0 else self.model["steps"][span[1]]["layers"]

    def spans_of(self, layer):
        """Spans of the layer, longest first."""
        spans = [s for s in self.model["timeline"]["spans"] if layer in self.layers_of(s)]
        return sorted(spans, key=lambda s: s[6] - s[7])

    def point_of(self, span):
        """The middle of a span, relative to the top left corner of the canvas."""
        at = self.run_js("const c = document.querySelector('canvas'); return { ...c.dataset, width: c.clientWidth };")
        at = {key: float(value) for key, value in at.items()}
        plot = at["width"] - at["left"] - at["right"]
        time = (span[6] + span[7]) / 2
        return at["left"] + plot * (time - at["from"]) / (at["to"] - at["from"]), at["top"] + (span[0] + 0.5) * at["lane"]

    def dimmed(self, span):
        x, y = self.point_of(span)
        alpha = self.run_js("""const c = document.querySelector('canvas');
            return c.getContext('2d').getImageData(arguments[0] * devicePixelRatio, arguments[1] * devicePixelRatio, 1, 1).data[3];""", x, y)
        return alpha < 200

    def click_canvas(self, x, y, move_by=None):
        canvas = self.browser.find_element(By.CSS_SELECTOR, "canvas")
        self.run_js("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", canvas)
        size = self.run_js("return [arguments[0].clientWidth, arguments[0].clientHeight]", canvas)
        actions = ActionChains(self.browser).move_to_element_with_offset(canvas, round(x - size[0] / 2), round(y - size[1] / 2))
        if move_by:
            actions.click_and_hold().move_by_offset(move_by, 0).release()
        else:
            actions.click()
        actions.perform()

    def click(self, selector, index=0):
        element = self.browser.find_elements(By.CSS_SELECTOR, selector)[index]
        self.run_js("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", element)
        ActionChains(self.browser).move_to_element(element).click().perform()

    def key(self, key):
        ActionChains(self.browser).send_keys(key).perform()


class Cnn(DeployPage):
    @staticmethod
    def arguments(folder):
        images = os.path.join(folder, "x.npy")
        write_images(images)
        return [os.path.join(MODELS, "cnn_opset17.onnx"), "--calibrate", images]

    def test_nothing_is_logged_and_nothing_is_fetched(self):
        self.check_quiet_and_offline()

    def test_no_text_is_missing(self):
        self.check_no_text_is_missing()
        for key in [Keys.ARROW_RIGHT] * len(self.model["layers"]):
            self.key(key)
            self.check_no_text_is_missing()

    def test_layers_add_up_to_what_the_program_prints(self):
        total = sum(layer["joules"] for layer in self.model["layers"])
        self.assertAlmostEqual(total / self.total["energy_joules"], 1.0, 9)
        self.assertEqual(sum(layer["core_products"] for layer in self.model["layers"]), self.total["core_products"])

    def test_header_says_what_was_planned_and_verified(self):
        text = self.run_js("return document.body.innerText")
        for words in ["cnn_opset17.onnx on hermes", "optimal", "every weight has one cell", "latency", "144 mm²"]:
            self.assertIn(words, text)
        line = self.run_js("return document.querySelector('#summary code').textContent")
        self.assertRegex(line, r"^imka deploy .*cnn_opset17.onnx --calibrate .*x.npy --page .*page.html --json$")

    def test_a_click_on_a_region_highlights_its_layer_everywhere(self):
        layer = max(self.model["regions"], key=lambda r: r[6] * r[8])[0]
        self.click(f"#floor-plan [data-layer='{layer}'] rect")
        self.assert_chosen(layer)

    def test_a_click_on_a_span_highlights_its_layer_everywhere(self):
        span = max((s for s in self.model["timeline"]["spans"] if s[2] >= 0), key=lambda s: s[7] - s[6])
        self.click_canvas(*self.point_of(span))
        self.assert_chosen(span[2])

    def test_a_click_on_digital_work_highlights_its_layer(self):
        span = max((s for s in self.model["timeline"]["spans"] if s[2] < 0), key=lambda s: s[7] - s[6])
        self.click_canvas(*self.point_of(span))
        self.assert_chosen(self.layers_of(span)[0])

    def test_a_click_on_a_bar_highlights_its_layer_everywhere(self):
        self.click("#costs .barrow[data-layer='0']")
        self.assert_chosen(0)
        self.click("#costs .barrow[data-layer='2']", 1)
        self.assert_chosen(2)

    def test_a_click_on_a_row_highlights_its_layer_everywhere(self):
        self.click("#layers tr[data-layer='1'] td:nth-child(3)")
        self.assert_chosen(1)

    def test_escape_and_empty_space_clear(self):
        self.click("#layers tr[data-layer='1'] button")
        self.assert_chosen(1)
        self.key(Keys.ESCAPE)
        self.assert_nothing_chosen()
        self.click("#layers tr[data-layer='1'] button")
        self.click("#layers h2")
        self.assert_nothing_chosen()
        self.click("#layers tr[data-layer='1'] button")
        self.click_canvas(5, 5)
        self.assert_nothing_chosen()
        self.click("#layers tr[data-layer='1'] button")
        self.click(".panel button")
        self.assert_nothing_chosen()

    def test_arrow_keys_move_between_layers(self):
        self.key(Keys.ARROW_RIGHT)
        self.assert_chosen(0)
        self.key(Keys.ARROW_DOWN)
        self.assert_chosen(1)
        self.key(Keys.ARROW_UP)
        self.key(Keys.ARROW_LEFT)
        self.assertEqual(self.highlighted()["costs"], [len(self.model["layers"]) - 1])

    def test_the_address_restores_the_layer(self):
        self.key(Keys.ARROW_RIGHT)
        self.key(Keys.ARROW_RIGHT)
        address = self.browser.current_url
        self.assertIn("#layer=", address)
        self.browser.get("about:blank")
        self.browser.get(address)
        self.assert_chosen(1)
        self.run_js("location.hash = '#layer=none'")
        self.assertEqual(self.highlighted()["costs"], [])

    def test_the_time_line_zooms_and_moves(self):
        window = lambda: [float(x) for x in self.run_js("const d = document.querySelector('canvas').dataset; return [d.from, d.to]")]
        begin, whole = window()
        self.assertEqual(begin, 0)
        self.assertAlmostEqual(whole, 1e9 * self.model["time"]["latency_seconds"], 2)
        self.click("#zoom-in")
        zoomed = window()
        self.assertAlmostEqual(zoomed[1] - zoomed[0], whole / 2, 3)
        self.click_canvas(300, 20, move_by=100)
        moved = window()
        self.assertLess(moved[0], zoomed[0])
        self.assertAlmostEqual(moved[1] - moved[0], whole / 2, 3)
        self.assertEqual(self.highlighted()["costs"], [], "moving chooses nothing")
        self.run_js("""document.querySelector('canvas').dispatchEvent(new WheelEvent('wheel',
            { deltaY: -300, ctrlKey: true, clientX: 600, clientY: 300, cancelable: true }))""")
        self.assertLess(window()[1] - window()[0], whole / 3)
        self.click("#zoom-all")
        self.assertEqual(window(), [0, whole])
        self.key(Keys.ARROW_RIGHT)
        self.click("#zoom-layer")
        layer = self.model["layers"][0]
        self.assertLessEqual(window()[0], 1e9 * layer["begin_seconds"])
        self.assertGreaterEqual(window()[1], 1e9 * layer["end_seconds"])
        self.assertLess(window()[1] - window()[0], 1.2e9 * (layer["end_seconds"] - layer["begin_seconds"]))

    def test_tooltips_say_where_and_when(self):
        tip = "return document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText"
        region = self.browser.find_element(By.CSS_SELECTOR, "#floor-plan [data-layer='1'] rect")
        ActionChains(self.browser).move_to_element(region).perform()
        self.assertRegex(self.run_js(tip), r"(?s)tile: inputs 0 to \d+, outputs 0 to \d+.*cells: rows .*core 0: .* % of its cells")
        span = self.spans_of(1)[0]
        self.click_canvas(*self.point_of(span))
        self.assertRegex(self.run_js(tip), r"(?s)core 0: products of .*\d+ rows? of \d+ from row \d+.*from .*s to .*s")
        bar = self.browser.find_element(By.CSS_SELECTOR, "#costs .barrow")
        self.run_js("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", bar)
        ActionChains(self.browser).move_to_element(bar).perform()
        self.assertRegex(self.run_js(tip), r"(?s)cores: .*J.*digital unit: .*J \(.* to .*\)")

    def test_the_table_sorts(self):
        column = "return [...document.querySelectorAll('#layers tbody tr')].map((r) => Number(r.cells[arguments[0]].dataset.v))"
        for index in [0, 1, 9]:
            head = self.browser.find_elements(By.CSS_SELECTOR, "#layers th button")[index]
            self.run_js("arguments[0].click()", head)
            up = self.run_js(column, index)
            self.assertEqual(up, sorted(up))
            self.run_js("arguments[0].click()", head)
            self.assertEqual(self.run_js(column, index), up[::-1])
        self.click("#layers tr[data-layer='1'] td:nth-child(3)")
        self.assert_chosen(1)

    def test_system_setting_is_followed(self):
        self.check_system_theme()

    def test_dark_and_light(self):
        look = """const c = document.querySelector('canvas'); return [getComputedStyle(document.body).backgroundColor,
            [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].reduce((sum, v) => sum + v, 0)]"""
        before = self.run_js(look)
        self.run_js("document.getElementById('theme').click()")
        after = self.run_js(look)
        self.assertNotEqual(before[0], after[0])
        self.assertNotEqual(before[1], after[1], "the time line is drawn again")
        self.run_js("document.getElementById('theme').click()")
        self.assertEqual(self.run_js(look), before)

    def test_fits_a_phone(self):
        self.on_a_phone(lambda: self.run_js("document.querySelector('#layers tr[data-layer]').click()"))

    def test_without_errors_the_page_says_how_to_add_them(self):
        text = self.run_js("return document.querySelector('#error').innerText")
        self.assertIn("Errors were not measured", text)
        self.assertIn(self.model["command"] + " --explain", text)
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "#error .barrow"), [])

    def test_prints(self):
        pdf = self.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
        self.assertGreater(len(pdf), 20_000)


class Encoder(DeployPage):
    """Several layers, with errors."""
    @staticmethod
    def arguments(folder):
        tokens = os.path.join(folder, "tokens.npy")
        write_tokens(tokens)
        return [os.path.join(MODELS, "encoder_opset17.onnx"), "--calibrate", tokens, "--explain", "--explain-inputs", "8",
                "--explain-chips", "2"]

    def test_nothing_is_logged_and_nothing_is_fetched(self):
        self.check_quiet_and_offline()
        self.check_no_text_is_missing()

    def test_errors_and_causes_are_shown(self):
        self.assertEqual([layer["name"] for layer in self.model["layers"] if "error" in layer],
                         [m["name"] for m in self.total["error"]["matrices"]])
        text = self.run_js("return document.querySelector('#error').innerText")
        for cause in self.total["error"]["causes"]:
            self.assertIn(cause["name"], text)
        shares = [layer["error"]["added_squared"]["mean"] for layer in self.model["layers"] if "error" in layer]
        self.assertAlmostEqual(sum(shares) / self.total["error"]["squared_error"]["mean"], 1.0, 6)
        self.assertIn("own error", self.run_js("return document.querySelector('#layers thead').innerText"))

    def test_a_click_on_an_error_highlights_its_layer_everywhere(self):
        self.click("#error .barrow[data-layer='2']")
        self.assert_chosen(2)
        self.assertIn("own error", self.run_js("return document.querySelector('.panel').innerText"))

    def test_every_layer_can_be_reached(self):
        for layer in range(len(self.model["layers"])):
            self.key(Keys.ARROW_RIGHT)
            self.assertEqual(self.highlighted()["table"], [layer])


class Network(DeployPage):
    """A list of matrices on three chips."""
    @staticmethod
    def arguments(folder):
        del folder
        return ["--network", "resnet18-in"]

    def test_many_cores_are_drawn(self):
        self.check_quiet_and_offline()
        self.check_no_text_is_missing()
        self.assertEqual(self.run_js("return document.querySelectorAll('.core').length"), 179)
        self.assertLess(os.path.getsize(self.url[7:]), 3_000_000)
        self.assertIn("no weights", self.run_js("return document.querySelector('#error').innerText"))

    def test_cores_are_in_columns(self):
        lefts, tops = self.run_js("""const cores = [...document.querySelectorAll('.core')];
            return [new Set(cores.map((e) => e.offsetLeft)).size, new Set(cores.map((e) => e.offsetTop)).size];""")
        self.assertGreater(lefts, 1)
        self.assertLess((tops - 1) * lefts, 179)
        self.assertGreaterEqual(tops * lefts, 179)

    def test_a_layer_is_highlighted_on_all_its_cores(self):
        self.click("#layers tr[data-layer='3'] button")
        self.assert_chosen(3)
        regions = [r for r in self.model["regions"] if r[0] == 3]
        self.assertEqual(self.run_js("return document.querySelectorAll('#floor-plan .on').length"), len(regions))


if __name__ == "__main__":
    if not json.loads(imka("doctor", "--json")).get("onnx", True):
        print("skipped: this imka does not read ONNX models")
        sys.exit(SKIPPED)
    main()
