"""Pages in a headless Chromium: the base of the browser tests.

Importing it exits with code 77 (skipped) if chromium, chromedriver or selenium are not installed.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else "imka"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    print("skipped: python3-selenium is not installed (scripts/setup --test)")
    sys.exit(SKIPPED)
if not BROWSER or not DRIVER:
    print("skipped: chromium and chromium-driver are not installed (scripts/setup --test)")
    sys.exit(SKIPPED)


def imka(*arguments):
    """Runs the program; returns what it prints."""
    return subprocess.run([PROGRAM, *arguments], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


class Browser(unittest.TestCase):
    """Opens a page before each test; derived classes write the page and contain the tests."""

    @classmethod
    def write_page(cls, folder, page):
        """Writes the page into the folder."""
        raise unittest.SkipTest("derived classes contain the tests")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        page = os.path.join(cls.folder.name, "page.html")
        cls.write_page(cls.folder.name, page)
        cls.url = "file://" + page
        options = Options()
        options.binary_location = BROWSER
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--window-size=1300,1000"]:
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"download.default_directory": cls.folder.name,
                                                  "download.prompt_for_download": False})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        cls.browser = webdriver.Chrome(service=Service(DRIVER), options=options)
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.browser.get_log("browser")
        self.browser.get_log("performance")
        self.browser.get("about:blank")  # a new hash alone would not load the page again
        self.browser.get(self.url)

    def run_js(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def check_quiet_and_offline(self):
        """Checks that nothing is logged and nothing is fetched."""
        self.assertEqual(self.browser.get_log("browser"), [])
        requests = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                requests.append(message["params"]["request"]["url"])
        allowed = (self.url, "about:blank")
        foreign = [url for url in requests if not url.startswith("data:") and url.split("#")[0] not in allowed]
        self.assertEqual(foreign, [])
        self.assertIn(self.url, requests, "the log of requests works")

    def check_system_theme(self):
        """The page follows the light or dark setting of the system."""
        ground = "return getComputedStyle(document.body).backgroundColor"
        light = self.run_js(ground)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        try:
            self.assertNotEqual(self.run_js(ground), light)
        finally:
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def on_a_phone(self, check):
        """Runs the check on a screen of 390 pixels; the page must not be wider."""
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True})
        try:
            self.browser.get(self.url)
            width, content = self.run_js("return [innerWidth, document.documentElement.scrollWidth]")
            self.assertEqual(width, 390)
            self.assertLessEqual(content, 390)
            check()
        finally:
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def check_no_text_is_missing(self):
        text = self.run_js("return document.body.innerText")
        for word in ["undefined", "NaN", "[object", "null"]:
            self.assertNotIn(word, text)


def main():
    if subprocess.run([PROGRAM, "--help"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        sys.exit(f"{PROGRAM} does not run")
    unittest.main(verbosity=2)
