"""What goes beside a product of tools/package.

    release.py sbom --name NAME --version V --relation CONTAINS|DEPENDS_ON [--compiled PACKAGE...] [--library PACKAGE...]
        Prints an SPDX 2.3 document (JSON): ours, and the Debian packages that it contains or depends on, and those whose
        headers are compiled into it, as they are installed here, with versions and licences.
    release.py notes --version V
        Prints what CHANGELOG.md says of this version, or of what is not released yet.
    release.py owners FILE...
        Prints the Debian packages that own these files, one a line, each once.

Dates come from SOURCE_DATE_EPOCH."""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Debian's short names of licences that are called otherwise in SPDX's list; lower case.
SPDX_NAMES = {
    "apache-2.0": "Apache-2.0", "artistic": "Artistic-1.0-Perl", "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause", "bsl-1.0": "BSL-1.0", "cc0-1.0": "CC0-1.0", "curl": "curl", "expat": "MIT",
    "gpl-1+": "GPL-1.0-or-later", "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later", "gpl-3": "GPL-3.0-only",
    "gpl-3+": "GPL-3.0-or-later", "isc": "ISC", "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.0+": "LGPL-2.0-or-later",
    "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later", "lgpl-3": "LGPL-3.0-only",
    "lgpl-3+": "LGPL-3.0-or-later", "mit": "MIT", "mpl-2.0": "MPL-2.0", "python": "PSF-2.0", "unicode": "Unicode-DFS-2016",
    "x11": "X11", "zlib": "Zlib",
}


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(1)


def dpkg_query(*arguments):
    result = subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        fail(f"dpkg-query {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def owners(files):
    """Debian 12 lists a library under /lib or under /usr/lib, whichever its package says."""
    packages = set()
    for file in files:
        real = os.path.realpath(file)
        names = {real, real.removeprefix("/usr")}
        listed = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True, check=False).stdout
        found = re.match(r"([a-z0-9][a-z0-9+.-]*)(:\w+)?: /", listed)
        if not found:
            fail(f"no Debian package owns {file}, which cannot be named in the SBOM")
        packages.add(found[1])
    return sorted(packages)


def stanzas(text):
    """The paragraphs of a machine-readable copyright file, each a dict of its fields."""
    for paragraph in re.split(r"\n[ \t]*\n", text):
        fields, name = {}, None
        for line in paragraph.splitlines():
            match = re.match(r"([A-Za-z-]+):[ \t]*(.*)", line)
            if match:
                name = match[1].lower()
                fields[name] = match[2].strip()
            elif name:
                fields[name] += "\n" + line
        yield fields


def main_and_other_licences(text):
    """Of a copyright file: the names that Debian has for the licence of all files but those that it lists apart, and
    for those. (None, []) where it is not machine readable."""
    if not re.match(r"\s*Format:\s*\S*copyright-format", text):
        return None, []
    of_all, others = None, []
    for fields in stanzas(text):
        licence = fields.get("license", "").split("\n")[0].strip()
        if "files" not in fields or not licence:
            continue
        patterns = fields["files"].split()
        if patterns == ["*"]:
            of_all = licence
        elif not all(pattern.startswith("debian/") for pattern in patterns) and licence not in others:
            others.append(licence)
    return of_all, [licence for licence in others if licence != of_all]


class Licences:
    """SPDX's expressions for Debian's names; those that SPDX does not list become LicenseRefs of the document."""

    def __init__(self):
        self.extracted = {}

    def expression(self, debian, copyright_file):
        # "A, B or C" of Debian: the comma binds weaker, and nobody uses it but before "and" and "or".
        parts = re.split(r"\s+(and|or)\s+", debian.replace(",", ""), flags=re.IGNORECASE)
        operators = {part.upper() for part in parts[1::2]}
        if len(operators) > 1 or " with " in debian:
            return self.reference(debian, copyright_file)
        return f" {''.join(operators) or 'AND'} ".join(self.name(part, copyright_file) for part in parts[::2])

    def name(self, debian, copyright_file):
        return SPDX_NAMES.get(debian.lower()) or self.reference(debian, copyright_file)

    def reference(self, debian, copyright_file):
        identifier = "LicenseRef-Debian-" + re.sub(r"[^A-Za-z0-9.]+", "-", debian).strip("-")
        self.extracted.setdefault(identifier, {
            "licenseId": identifier, "name": debian,
            "extractedText": f"Called {debian!r} in {copyright_file}, which has its text."})
        return identifier


def debian_package(name, licences):
    version, source, supplier, homepage = dpkg_query(
        "-W", "-f", "${Version}\\n${source:Package}\\n${Maintainer}\\n${Homepage}\\n", name).split("\n")[:4]
    copyright_file = f"/usr/share/doc/{name}/copyright"
    try:
        text = pathlib.Path(copyright_file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    main, others = main_and_other_licences(text)
    package = {
        "SPDXID": f"SPDXRef-Debian-{re.sub('[^A-Za-z0-9.-]', '-', name)}", "name": name, "versionInfo": version,
        "supplier": f"Organization: {supplier}", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION", "sourceInfo": f"Debian source package {source}",
        "licenseDeclared": licences.expression(main, copyright_file) if main else "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:deb/debian/{name.replace('+', '%2B')}@{version.replace('+', '%2B')}"
                                              f"?distro=bookworm"}]}
    if homepage:
        package["homepage"] = homepage
    if others:
        package["licenseComments"] = f"{copyright_file} names for some of the source's files also: {'; '.join(others)}"
    elif not main:
        package["licenseComments"] = f"{copyright_file} is not machine readable"
    return package


def source_date():
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def sbom(name, version, relation, libraries, compiled):
    licences = Licences()
    packages = [{
        "SPDXID": "SPDXRef-quire", "name": "quire", "versionInfo": version, "packageFileName": name,
        "supplier": "Organization: Quire", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "APPLICATION"}]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-quire")]
    for debian in sorted(set(libraries) | set(compiled)):
        packages.append(debian_package(debian, licences))
        identifier = packages[-1]["SPDXID"]
        if debian in libraries:
            relations.append(("SPDXRef-quire", relation, identifier))
        if debian in compiled:
            relations.append((identifier, "BUILD_DEPENDENCY_OF", "SPDXRef-quire"))
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{digest[:32]}",
        "creationInfo": {"created": source_date(), "creators": [f"Tool: quire-tools-package-{version}"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": how, "relatedSpdxElement": b}
                          for a, how, b in relations]}
    if licences.extracted:
        document["hasExtractedLicensingInfos"] = [licences.extracted[key] for key in sorted(licences.extracted)]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def notes(text, version):
    """The section of the changelog, without its heading."""
    sections = dict(re.findall(r"^## \[?([^\]\s]+)\]?[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    section = sections.get(version) or sections.get("Unreleased")
    if not section or not section.strip():
        fail(f"CHANGELOG.md has no section {version} or Unreleased")
    return f"# Quire {version}\n\n{section.strip()}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("sbom")
    command.add_argument("--name", required=True)
    command.add_argument("--version", required=True)
    command.add_argument("--relation", choices=("CONTAINS", "DEPENDS_ON"), required=True)
    command.add_argument("--library", nargs="*", default=[])
    command.add_argument("--compiled", nargs="*", default=[])
    command = commands.add_parser("notes")
    command.add_argument("--version", required=True)
    command = commands.add_parser("owners")
    command.add_argument("file", nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "sbom":
        print(sbom(arguments.name, arguments.version, arguments.relation, arguments.library, arguments.compiled), end="")
    elif arguments.command == "notes":
        print(notes((ROOT / "CHANGELOG.md").read_text(), arguments.version), end="")
    else:
        print("\n".join(owners(arguments.file)))


if __name__ == "__main__":
    main()
