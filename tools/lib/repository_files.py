"""Which files a repository has, for checks that read them all."""

import subprocess


def repository_files(root, *patterns):
    """Their names from the top: those that git knows or would add, of these patterns if any, that are there."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns], cwd=root,
                            check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in listed if name and (root / name).is_file()]
