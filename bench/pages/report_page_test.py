#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report of a real run in headless Chromium: what a person sees is there, nothing is loaded, nothing complains.

usage: report_page_test.py PROGRAM [unittest arguments]; REPORT_PNG=file keeps the screenshot
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
# pylint: disable=wrong-import-position
from testing import browser, colour  # noqa: E402

# Texts of pictures that reach beyond their picture, and parts of the page wider than the window.
OUTSIDE = """(() => {
  const wrong = [];
  for (const text of document.querySelectorAll('svg text')) {
    const words = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
    if (words.left < frame.left - 1 || words.right > frame.right + 1 || words.bottom > frame.bottom + 1)
      wrong.push(text.textContent);
  }
  if (document.documentElement.scrollWidth > window.innerWidth) wrong.push('the page is wider than the window');
  return wrong;
})()"""
# Names of ticks that overlap, tables that are wider than their page, axes that are called "threadss".
CROWDED = """(() => {
  const wrong = [];
  const where = element => {
    let title = '';
    for (const head of document.querySelectorAll('h2'))
      if (head.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING) title = head.id || head.innerText;
    return title;
  };
  for (const svg of document.querySelectorAll('figure svg')) {
    const names = [...svg.querySelectorAll('text.middle.num')].map(text => [text.getBoundingClientRect(), text]);
    for (let i = 0; i < names.length; ++i)
      for (let j = 0; j < i; ++j) {
        const [a, b] = [names[i][0], names[j][0]];
        if (Math.abs(a.top - b.top) < 3 && a.left < b.right && b.left < a.right)
          wrong.push(where(svg) + ': ' + names[j][1].textContent + ' over ' + names[i][1].textContent);
      }
    for (const text of svg.querySelectorAll('text'))
      if (/ss$|in flights/.test(text.textContent)) wrong.push(where(svg) + ': ' + text.textContent);
  }
  for (const box of document.querySelectorAll('.scroll'))
    if (window.innerWidth >= 1200 && box.scrollWidth > box.clientWidth + 1)
      wrong.push(where(box) + ': a table of ' + box.scrollWidth + ' in ' + box.clientWidth);
  return wrong;
})()"""
# One of each kind of table and picture.
STUDIES = ("index-technique", "pipelining-ways", "offloading-groups", "log-packing", "kiwi-gets", "rcuckoo-search",
           "rcuckoo-latency", "synthesis-validation")
COUNT = "document.querySelectorAll('{}').length"


@unittest.skipUnless(browser.find_browser(), "no Chromium; scripts/setup.sh test installs it")
class ReportTest(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.scratch.name) / "<o&ut>"
        command = [cls.program, "run", "--engines=bonsai,absl_btree,unordered_map", "--workloads=load,a,c,e",
                   "--records=3000", "--operations=20000", f"--out={cls.out}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100)
        listed = subprocess.run([cls.program, "list"], capture_output=True, text=True, check=True, timeout=60).stdout
        cls.has_studies = "\nexperiments\n" in listed
        if cls.has_studies:
            command = [cls.program, "experiment", "index-technique", "--scale=trial", f"--out={cls.out}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100)
        cls.page = cls.out / "report.html"
        cls.results = json.loads((cls.out / "results.json").read_text())
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.scratch.cleanup()

    def open(self, page=None, kind="screen", scheme="light"):
        self.browser.media(kind, scheme)
        self.browser.open(page or self.page)

    def test_renders_without_complaint_and_without_network(self):
        self.open()
        self.assertEqual(self.browser.console, [])
        self.assertEqual(self.browser.requests, [])
        self.assertEqual(self.browser.evaluate(OUTSIDE), [])
        self.assertIsNone(re.search(r"<script|<link|@import|url\(|(src|href)=", self.page.read_text()))

    def test_shows_every_run_and_dashes_for_the_rest(self):
        self.open()
        shown = [run for run in self.results["runs"] if run["workload"] != "reload"]
        self.assertEqual(len(shown), 3 * 4 - 1)
        self.assertEqual(self.browser.evaluate(COUNT.format("#throughput .bar")), len(shown))
        self.assertEqual(self.browser.evaluate(COUNT.format("#throughput .absent")), 1)
        self.assertIn("has no ordered scan", self.browser.evaluate("document.body.innerText"))
        # With very few samples there is nothing but the maximum.
        drawn = [(run["workload"], kind) for run in shown for kind, latency in run["latency_us"].items()
                if len(latency["curve"]) > 1]
        self.assertEqual(self.browser.evaluate(COUNT.format("#latency figure")), len(set(drawn)))
        self.assertEqual(self.browser.evaluate(COUNT.format("#latency .curve")), len(drawn))
        workloads = {run["workload"] for run in self.results["runs"]}
        self.assertEqual(self.browser.evaluate(COUNT.format("#runs tbody tr")), 3 * len(workloads))

    def test_shows_the_experiments_of_the_directory(self):
        if not self.has_studies:
            self.skipTest("this build has no studies (-DBONSAI_STUDIES=ON)")
        self.open()
        self.assertEqual(self.browser.evaluate(COUNT.format("figure.experiment svg")), 1)
        self.assertIn("6.04", self.browser.evaluate("document.body.innerText"))
        self.open(self.out / "index-technique.svg")
        self.assertEqual(self.browser.console, [])

    def test_every_section_of_the_studies_can_be_read(self):
        if not self.has_studies:
            self.skipTest("this build has no studies (-DBONSAI_STUDIES=ON)")
        out = pathlib.Path(self.scratch.name) / "studies"
        for name in (*STUDIES, "claims"):
            command = [self.program, "experiment", name, "--scale=trial", f"--out={out}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=200)
        size = {"deviceScaleFactor": 1, "mobile": False}
        for width in (1280, 420):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, **size)
            for scheme in ("light", "dark"):
                self.open(out / "report.html", scheme=scheme)
                sections = self.browser.evaluate("[...document.querySelectorAll('h2')].map(head => head.id)")
                self.assertEqual(sections[0], "claims", "the claims come first")
                self.assertEqual(set(sections), {*STUDIES, "claims"})
                self.assertEqual(self.browser.console + self.browser.requests, [])
                self.assertEqual(self.browser.evaluate(OUTSIDE), [], (width, scheme))
                self.assertEqual(self.browser.evaluate(CROWDED), [], (width, scheme))
        self.browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, **size)
        chapters = self.browser.evaluate("[...document.querySelectorAll('h1.chapter')].map(head => head.innerText)")
        self.assertEqual(chapters, ["Claims", "BonsaiKV", "KiWi", "RCuckoo and RACE"])

    def test_bars_are_as_long_as_the_figures(self):
        self.open()
        widths = self.browser.evaluate("[...document.querySelector('#throughput figure').querySelectorAll('.bar')]"
                                       ".map(bar => bar.width.baseVal.value)")
        rates = [run["throughput_ops_per_s"] for run in self.results["runs"] if run["workload"] == "load"]
        for width, rate in zip(widths, rates):
            self.assertAlmostEqual(width / max(widths), rate / max(rates), delta=0.02)

    def test_labels_what_is_emulated_loudly(self):
        self.open()
        label = self.browser.evaluate("document.querySelector('.label.emulated').innerText")
        self.assertIn("EMULATED", label)
        self.assertIn("tmpfs (emulated NVM)", label)
        captions = self.browser.evaluate("[...document.querySelectorAll('#throughput figcaption')]"
                                         ".map(caption => caption.innerText)")
        self.assertTrue(captions and all("EMULATED medium: bonsai" in caption for caption in captions), captions)
        for key in ("commit", "cpu", "seed"):
            self.assertIn(str(self.results["manifest"][key] or ""), self.browser.evaluate("document.body.innerText"))

    def test_is_not_blank_in_either_scheme(self):
        brightness = {}
        for scheme in ("light", "dark"):
            self.open(scheme=scheme)
            picture = os.environ.get("REPORT_PNG", str(self.out / "page.png"))
            self.browser.screenshot(picture, 700, 800)
            colours = browser.colours_of_png(picture)
            paper, pixels = max(colours.items(), key=lambda item: item[1])
            self.assertGreater(len(colours), 30, scheme)
            self.assertLess(pixels / sum(colours.values()), 0.95, scheme)
            brightness[scheme] = sum(paper)
        self.assertGreater(brightness["light"], 3 * 240)
        self.assertLess(brightness["dark"], 3 * 40)

    def test_fits_a_telephone_and_prints(self):
        size = {"deviceScaleFactor": 1, "mobile": False}
        self.browser.call("Emulation.setDeviceMetricsOverride", width=420, height=800, **size)
        self.open()
        self.assertEqual(self.browser.evaluate(OUTSIDE), [])
        self.browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, **size)
        self.open(kind="print", scheme="dark")
        self.assertEqual(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        pdf = self.browser.print_to_pdf()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertIn(len(re.findall(rb"/Type\s*/Page\b", pdf)), range(2, 8))

    def test_colours_differ_for_the_colour_blind(self):
        for scheme in ("light", "dark"):
            self.open(scheme=scheme)
            colours = [self.browser.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--c{i}')")
                       for i in range(6)]
            self.assertGreater(colour.closest_pair(colours)[0], 18, scheme)
        # Red and green of one lightness are what the measure must refuse.
        self.assertLess(colour.closest_pair(["#b05a00", "#6f7d00"])[0], 18)

    def test_the_browser_tells_what_is_wrong(self):
        page = pathlib.Path(self.scratch.name) / "broken.html"
        page.write_text("<body><img src='file:///nowhere.png'><script>console.log('a word'); throw 1</script>"
                        "<svg width=9 height=9><text x=99 y=9>far outside</text></svg></body>")
        self.open(page)
        self.assertIn("file:///nowhere.png", self.browser.requests)
        self.assertIn("a word", self.browser.console)
        self.assertIn("Uncaught", self.browser.console)
        self.assertIn("far outside", self.browser.evaluate(OUTSIDE))


if __name__ == "__main__":
    ReportTest.program = sys.argv.pop(1)
    unittest.main()
