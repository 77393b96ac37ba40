"""What tools/package puts beside its products: the list of parts with versions and licences, which another's tools read,
and the release notes. tools/check-package tries the products themselves."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))
import release  # noqa: E402

try:
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
except ImportError as error:
    print(f"skipped: {error}; tools/test installs tests/requirements.txt")
    sys.exit(77)

COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: thing

Files: *
Copyright: 2001 Somebody
License: Expat or GPL-2+
 Permission is granted.
 .
 Files: not-a-field of this text

Files: src/a.c
       src/b.c
Copyright: 2002 Other
License: Fancy

Files: debian/*
Copyright: 2003 Packager
License: GPL-3+
"""


class ReleaseTest(unittest.TestCase):
    def test_licences_of_a_machine_readable_copyright_file(self):
        self.assertEqual(release.main_and_other_licences(COPYRIGHT), ("Expat or GPL-2+", ["Fancy"]))
        self.assertEqual(release.main_and_other_licences("This package was debianized by hand.\n" + COPYRIGHT), (None, []))

    def test_debian_names_become_expressions(self):
        for debian, expression in (
                ("Expat", "MIT"), ("Expat or GPL-2+", "MIT OR GPL-2.0-or-later"), ("BSD-3-clause", "BSD-3-Clause"),
                ("Expat and Unicode", "MIT AND Unicode-DFS-2016"), ("Fancy", "LicenseRef-Debian-Fancy"),
                ("GPL-2+ with Autoconf exception", "LicenseRef-Debian-GPL-2-with-Autoconf-exception"),
                ("MIT or BSD-2-clause and ISC", "LicenseRef-Debian-MIT-or-BSD-2-clause-and-ISC")):
            licences = release.Licences()
            self.assertEqual(licences.expression(debian, "/doc"), expression)
            self.assertEqual(len(licences.extracted), int("LicenseRef" in expression), debian)

    def test_the_sbom_of_installed_packages_is_valid(self):
        owner = release.owners(["/bin/sh", "/usr/bin/dpkg-query"])
        self.assertEqual(owner, ["dash", "dpkg"])
        libraries = ["dash", "libc6", "zlib1g"]
        command = [sys.executable, ROOT / "tools/lib/release.py", "sbom", "--name", "quire-1.2.3.tar.xz", "--version",
                   "1.2.3", "--relation", "CONTAINS", "--library", *libraries, "--compiled", "dpkg"]
        texts = [subprocess.run(command, check=True, capture_output=True, text=True,
                                env=dict(os.environ, SOURCE_DATE_EPOCH="86400")).stdout for _ in range(2)]
        self.assertEqual(*texts)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "sbom.spdx.json")
            file.write_text(texts[0])
            document = parse_file(str(file))
        self.assertEqual([problem.validation_message for problem in validate_full_spdx_document(document)], [])
        packages = {package.name: package for package in document.packages}
        self.assertEqual(set(packages), {"quire", "dpkg", *libraries})
        for name in (*libraries, "dpkg"):
            installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], check=True, capture_output=True,
                                       text=True).stdout
            self.assertEqual(packages[name].version, installed)
        self.assertEqual(str(packages["zlib1g"].license_declared), "Zlib")
        kinds = {(str(relation.related_spdx_element_id), relation.relationship_type.name)
                 for relation in document.relationships if relation.spdx_element_id == "SPDXRef-quire"}
        self.assertIn(("SPDXRef-Debian-zlib1g", "CONTAINS"), kinds)
        self.assertEqual(str(document.creation_info.created), "1970-01-02 00:00:00")

    def test_a_file_without_a_package_is_an_error(self):
        with tempfile.NamedTemporaryFile() as file, self.assertRaises(SystemExit):
            release.owners([file.name])

    def test_notes(self):
        changelog = "# Changelog\n\n## Unreleased\n\nNew.\n\n### Part\n\n- a\n\n## 1.0.0 - 2026-01-01\n\nOld.\n"
        self.assertEqual(release.notes(changelog, "1.0.0"), "# Quire 1.0.0\n\nOld.\n")
        self.assertEqual(release.notes(changelog, "1.1.0"), "# Quire 1.1.0\n\nNew.\n\n### Part\n\n- a\n")
        with self.assertRaises(SystemExit):
            release.notes("# Changelog\n", "1.0.0")
        self.assertIn("### Serving", release.notes((ROOT / "CHANGELOG.md").read_text(), "0.1.0"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
