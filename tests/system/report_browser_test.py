#!/usr/bin/env python3
"""Tests a rendered page in a headless Chromium.

    report_browser_test.py IMKA_PROGRAM

Exit code 77 (skipped) if chromium, chromedriver or selenium are not installed.
"""
import json
import os

from browser import Browser, imka, main
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"


def record(dataset, kernel, sampler, ratio, seed):
    """One record of a sweep with realistic synthetic results."""
    offset = {"rff": 0.0, "orf": 0.01, "sorf": 0.02}[sampler] + 0.002 * (seed % 3)
    config = {"dataset": dataset, "protocol": "default", "kernel": kernel, "sampler": sampler, "backend": "fp32",
              "log_ratio": str(ratio), "seeds": str(seed), "split_seed": "0"}
    return {"schema": "imka-record-1", "key": "-".join([dataset, kernel, sampler, str(ratio), str(seed)]),
            "experiment": "ridge_fp32", "kind": "ridge", "seed": seed, "config": config, "data_sha256": "d1",
            "results": {"d": 16, "m": 16 * 2**ratio, "D": 32 * 2**ratio, "log_ratio": ratio,
                        "accuracy": 0.8 + 0.02 * ratio + offset, "gram_error": 0.4 / ratio - offset},
            "error": "", "imka_version": "0.1.0", "build": "test", "instruction_set": "AVX2", "wall_seconds": 0.1,
            "peak_memory_mb": 10, "finished": "2026-01-31T12:00:00Z"}


def write_records(path):
    with open(path, "w", encoding="utf-8") as file:
        for dataset in ["letter", "magic", HOSTILE]:
            for kernel in ["rbf", "arccos0"]:
                for sampler in ["rff", "orf", "sorf"]:
                    for ratio in range(1, 6):
                        for seed in range(3):
                            file.write(json.dumps(record(dataset, kernel, sampler, ratio, seed)) + "\n")


def write_unpublished_records(path):
    """Runs that have no published values."""
    with open(path, "w", encoding="utf-8") as file:
        for sampler in ["rff", "orf", "sorf"]:
            for seed in range(3):
                line = record("ringnorm", "rbf", sampler, 5, seed)
                line["experiment"] = "demo"
                file.write(json.dumps(line) + "\n")


def write_chip_records(path):
    """Two data sets in FP32 and on the chip, in the protocol and sizes of the published runs."""
    with open(path, "w", encoding="utf-8") as file:
        for dataset, d in [("ijcnn1", 13), ("letter", 16)]:
            for backend in ["fp32", "hermes"]:
                for sampler in ["rff", "orf", "sorf"]:
                    for ratio in range(1, 6):
                        for seed in range(3):
                            line = record(dataset, "rbf", sampler, ratio, seed)
                            line["experiment"] = "ridge"
                            line["key"] += backend
                            line["config"].update(protocol="measured", backend=backend)
                            line["results"]["m"] = d * 2**ratio - ratio
                            file.write(json.dumps(line) + "\n")


def performer_record(mode, seconds, seed):
    """One test of a hardware-aware model on the chip after some time."""
    config = {"dataset": "cifar10", "checkpoint": "TASK-hwa.safetensors", "mode": mode, "samples": "auto", "data_seed": "0",
              "saved_omega": "false", "omega_law": "gaussian", "seeds": str(seed), "origin": "files"}
    if mode != "fp32":
        config.update(read_seconds=str(seconds), compensation="none", backend="hermes")
    return {"schema": "imka-record-1", "key": "-".join([mode, str(seconds), str(seed)]), "experiment": "performer_drift",
            "kind": "performer", "seed": seed, "config": config, "data_sha256": "d1",
            "results": {"accuracy": 0.45 - 0.01 * (seconds > 0) + 0.002 * seed, "loss": 1.5, "examples": 10000},
            "error": "", "imka_version": "0.1.0", "build": "test", "instruction_set": "AVX2", "wall_seconds": 0.1,
            "peak_memory_mb": 10, "finished": "2026-01-31T12:00:00Z"}


def write_performer_records(path):
    with open(path, "w", encoding="utf-8") as file:
        for seed in range(3):
            for mode, seconds in [("fp32", 0), ("all", 0), ("all", 3600), ("all", 86400)]:
                file.write(json.dumps(performer_record(mode, seconds, seed)) + "\n")


def write_log(folder):
    os.mkdir(folder)
    with open(os.path.join(folder, "cifar10-hwa.jsonl"), "w", encoding="utf-8") as file:
        for step in range(50, 5001, 50):
            for kind in ["train"] + (["valid"] if step % 500 == 0 else []):
                file.write(json.dumps({"kind": kind, "step": step, "loss": 2 - step / 5000, "accuracy": step / 10000}) + "\n")


class Report(Browser):
    """A page of synthetic records; the classes below contain the tests."""
    write = None

    @classmethod
    def write_page(cls, folder, page):
        if cls.write is None:
            super().write_page(folder, page)
        records = os.path.join(folder, "records.jsonl")
        cls.write(records)
        imka("report", records, "--output", page)

    def colours_drawn(self):
        """Number of different colours per canvas; 1 if blank."""
        return self.run_js("""
            return [...document.querySelectorAll('canvas')].map((canvas) => {
              const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
              const seen = new Set();
              for (let i = 0; i < pixels.length; i += 4)
                seen.add((pixels[i] << 24) | (pixels[i + 1] << 16) | (pixels[i + 2] << 8) | pixels[i + 3]);
              return seen.size;
            });""")


class Page(Report):
    write = staticmethod(write_records)

    def test_figures_are_drawn(self):
        colours = self.colours_drawn()
        self.assertEqual(len(colours), 16)
        self.assertGreater(min(colours), 20)

    def test_nothing_is_logged_and_nothing_is_fetched(self):
        self.check_quiet_and_offline()

    def test_text_from_data_stays_text(self):
        self.assertNotEqual(self.browser.title, "owned")
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "img"), [])
        self.assertIn(HOSTILE, self.browser.find_element(By.TAG_NAME, "main").text)

    def test_legend_switches_a_curve(self):
        visible = """const c = Chart.getChart(document.querySelector('figure[id*=letter] canvas'));
                     return c.data.datasets.map((s, i) => c.isDatasetVisible(i));"""
        before = self.run_js(visible)
        button = self.browser.find_element(By.CSS_SELECTOR, "figure[id*=letter] .legend button:nth-child(2)")
        self.run_js("arguments[0].click()", button)
        self.assertEqual(self.run_js(visible), [before[0], False] + before[2:])
        self.assertEqual(button.get_attribute("aria-pressed"), "false")
        self.run_js("arguments[0].click()", button)
        self.assertEqual(self.run_js(visible), before)

    def test_tooltips_give_mean_deviation_and_seeds(self):
        text = self.run_js("""
            const c = Chart.getChart(document.querySelector('figure[id*=letter][id*=accuracy] canvas'));
            c.tooltip.setActiveElements([{ datasetIndex: 0, index: 0 }], { x: 0, y: 0 });
            c.update();
            return [c.tooltip.title[0], c.tooltip.body[0].lines[0].trim()];""")
        # Seeds 0, 1, 2 of rff at r = 1: 82.0, 82.2, 82.4 percent.
        self.assertEqual(text, ["log2(m/d) = 1", "rff: 82.20 ± 0.20 (n = 3)"])

    def test_png_is_saved(self):
        button = self.browser.find_element(By.CSS_SELECTOR, "figure[id*=letter] .png")
        path = os.path.join(self.folder.name, button.get_attribute("data-for") + ".png")
        self.run_js("arguments[0].click()", button)
        WebDriverWait(self.browser, 60).until(lambda _: os.path.exists(path))
        with open(path, "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")

    def test_tables_sort(self):
        values = """return [...document.querySelectorAll('#provenance tbody tr')].map((r) => r.cells[0].textContent)"""
        head = self.browser.find_element(By.CSS_SELECTOR, "#provenance th button")
        self.run_js("arguments[0].click()", head)
        up = self.run_js(values)
        self.run_js("arguments[0].click()", head)
        down = self.run_js(values)
        self.assertEqual(len(up), 3)
        self.assertEqual(down, up[::-1])
        self.assertNotEqual(down, up)
        # Numbers sort by value, not by their text.
        table = "document.querySelector('figure[id*=letter] details table')"
        self.run_js(f"[...{table}.tHead.rows[0].cells].find((c) => c.textContent === 'm').querySelector('button').click()")
        sizes = self.run_js(f"return [...{table}.tBodies[0].rows].map((r) => Number(r.cells[2].textContent))")
        self.assertEqual(sizes, sorted(sizes))
        self.assertGreater(sizes[-1], sizes[0])

    def test_dark_and_light(self):
        ground = "return getComputedStyle(document.body).backgroundColor"
        curve = "return Chart.getChart(document.querySelector('canvas')).data.datasets[0].borderColor"
        before = (self.run_js(ground), self.run_js(curve))
        self.run_js("document.getElementById('theme').click()")
        after = (self.run_js(ground), self.run_js(curve))
        self.assertNotEqual(before[0], after[0])
        self.assertNotEqual(before[1], after[1])
        self.run_js("document.getElementById('theme').click()")
        self.assertEqual((self.run_js(ground), self.run_js(curve)), before)

    def test_system_setting_is_followed(self):
        self.check_system_theme()

    def test_fits_a_phone(self):
        self.on_a_phone(lambda: self.assertGreater(min(self.colours_drawn()), 20))

    def test_every_figure_has_its_text_and_command(self):
        count = "return document.querySelectorAll(arguments[0]).length"
        self.assertEqual(self.run_js(count, "figure canvas[role=img][aria-label]"), 16)
        self.assertEqual(self.run_js(count, "figure .png"), 16)
        self.assertEqual(self.run_js(count, "figure figcaption"), 16)
        commands = self.run_js("return [...document.querySelectorAll('.repeat code')].map((c) => c.textContent)")
        self.assertEqual(len(commands), 12)
        for command in commands:
            self.assertTrue(command.startswith("imka sweep ridge_fp32 --set "), command)
        captions = self.run_js("return [...document.querySelectorAll('figcaption, .note')].map((c) => c.textContent)")
        bars = [text for text in captions if "error bars are one standard deviation over seeds" in text]
        self.assertEqual(len(bars), 13, "the figures, and once in the summary")

    def test_page_says_so_when_all_is_well(self):
        self.assertIn("None: every line was a record", self.run_js("return document.querySelector('#flags').textContent"))
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, ".flag"), [])

    def test_contents_lead_to_every_part(self):
        targets = self.run_js("return [...document.querySelectorAll('nav a')].map((a) => a.getAttribute('href').slice(1))")
        self.assertGreater(len(targets), 6)
        self.assertEqual([t for t in targets if not self.run_js("return document.getElementById(arguments[0]) !== null", t)], [])
        self.assertEqual(len(set(targets)), len(targets))

    def test_no_text_is_missing(self):
        text = self.run_js("return document.querySelector('main').textContent")
        for word in ["undefined", "NaN", "[object"]:
            self.assertNotIn(word, text)

    def test_figures_say_what_they_show(self):
        labels = self.run_js("return [...document.querySelectorAll('canvas')].map((c) => c.getAttribute('aria-label'))")
        for label in labels:
            self.assertRegex(label, r"(rises|falls|stays) from [\d.]+ at 1 to [\d.]+ at 5")

    def test_prints(self):
        pdf = self.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
        self.assertGreater(len(pdf), 50_000)
        # Printing leaves the page as it was.
        self.assertEqual(self.run_js("return document.documentElement.dataset.theme ?? null"), None)


class PageWithoutPublishedValues(Report):
    write = staticmethod(write_unpublished_records)

    def test_nothing_is_judged(self):
        summary = self.browser.find_element(By.ID, "summary")
        self.assertIn("no published values", summary.text)
        self.assertNotIn("published means", summary.text)
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, ".tile, .badge"), [])
        columns = self.run_js("""return [...document.querySelectorAll('figure table')].map(
            (table) => [...table.querySelectorAll('th')].map((cell) => cell.textContent.trim()));""")
        self.assertEqual(len(columns), 4, "two figures with two tables each")
        for names in columns:
            self.assertIn("imka", names)
            self.assertEqual([n for n in names if n in ("published", "Δ", "Δ / se", "verdict")], [])


class ChipPage(Report):
    write = staticmethod(write_chip_records)
    CHART = "const c = Chart.getChart(document.getElementById('c-ridge-letter-rbf-measured-accuracy'));"

    def test_chip_is_dashed_in_the_colour_of_its_sampler(self):
        curves = self.run_js(self.CHART + """
            return c.data.datasets.map((s) => [s.label, s.borderDash.length > 0, s.borderColor]);""")
        by_label = {label: (dashed, colour) for label, dashed, colour in curves}
        self.assertEqual(len(curves), 12, "three samplers, two backends, ours and published")
        for sampler in ["rff", "orf", "sorf"]:
            self.assertFalse(by_label[sampler][0])
            self.assertTrue(by_label[sampler + ", hermes"][0])
            self.assertEqual(by_label[sampler][1], by_label[sampler + ", hermes"][1])

    def test_one_switch_for_all_curves_of_a_chip(self):
        visible = self.CHART + "return c.data.datasets.filter((s, i) => c.isDatasetVisible(i)).map((s) => s.label);"
        before = self.run_js(visible)
        switch = """[...document.querySelectorAll('#ridge-letter-rbf-measured-accuracy .groups button')]
                    .find((b) => b.textContent === 'chip').click()"""
        self.run_js(switch)
        self.assertEqual(self.run_js(visible), [label for label in before if "hermes" not in label])
        self.run_js(switch)
        self.assertEqual(self.run_js(visible), before)

    def test_averages_and_fidelity_are_drawn(self):
        self.assertEqual(self.browser.get_log("browser"), [])
        ids = self.run_js("return [...document.querySelectorAll('canvas')].map((c) => c.id)")
        drawn = dict(zip(ids, self.colours_drawn()))
        for name in ["c-ridge-fidelity-1-scatter-rbf", "c-ridge-fidelity-1-residuals-rbf",
                     "c-ridge-accuracy-rbf-best-r", "c-ridge-normalised-rbf"]:
            self.assertGreater(drawn[name], 20, name)

    def test_fidelity_and_averages_have_tables(self):
        text = self.run_js("return document.querySelector('main').textContent")
        self.assertIn("Emulated against measured chip", text)
        self.assertIn("All 30 cells", text)
        self.assertIn("What the chip changes", text)
        for word in ["undefined", "NaN", "[object"]:
            self.assertNotIn(word, text)

    def test_points_of_fidelity_say_which_cell_they_are(self):
        text = self.run_js("""
            const c = Chart.getChart(document.getElementById('c-ridge-fidelity-1-scatter-rbf'));
            c.tooltip.setActiveElements([{ datasetIndex: 0, index: 0 }], { x: 0, y: 0 });
            c.update();
            return [c.options.scales.x.type, c.tooltip.title[0]];""")
        self.assertEqual(text, ["logarithmic", "ijcnn1, rff, r = 1"])


class PerformerPage(Report):
    @classmethod
    def write_page(cls, folder, page):
        records = os.path.join(folder, "records.jsonl")
        write_performer_records(records)
        write_log(os.path.join(folder, "logs"))
        imka("report", records, "--logs", os.path.join(folder, "logs"), "--output", page)

    def test_drift_and_learning_curves_are_drawn(self):
        self.check_quiet_and_offline()
        colours = self.colours_drawn()
        self.assertEqual(len(colours), 3)
        self.assertGreater(min(colours), 20)

    def test_axes_have_names_of_times_and_round_steps(self):
        ticks = """const c = Chart.getChart(document.getElementById(arguments[0]));
                   return c.scales.x.ticks.map((t) => t.label);"""
        self.assertEqual(self.run_js(ticks, "c-performer-drift-cifar10-drift"), ["at once", "1 h", "1 d"])
        self.assertEqual(self.run_js(ticks, "c-training-cifar10-hwa-loss"), ["0", "1000", "2000", "3000", "4000", "5000"])
        radius = "return Chart.getChart('c-training-cifar10-hwa-loss').data.datasets.map((s) => s.pointRadius)"
        self.assertEqual(self.run_js(radius), [0, 4])

    def test_tables_have_rows_per_time(self):
        text = self.run_js("return document.querySelector('main').textContent")
        for part in ["All on chip, after 1 h", "44.20 ± 0.20", "−1.00 ± 0.00", "Learning curves"]:
            self.assertIn(part, text)
        for word in ["undefined", "NaN", "[object"]:
            self.assertNotIn(word, text)


if __name__ == "__main__":
    main()
