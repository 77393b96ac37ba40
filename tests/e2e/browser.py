"""Chromium as the tests of pages use it; an ImportError where it is missing."""

import shutil

from selenium import webdriver

if not shutil.which("chromium") or not shutil.which("chromedriver"):
    raise ImportError("no Chromium (the Debian packages chromium and chromium-driver)")


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    # Containers have no sandbox of their own and a small /dev/shm.
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                 "--no-proxy-server"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    browser.set_script_timeout(300)  # on a busy machine the longest script takes more than the usual 30 s
    return browser
