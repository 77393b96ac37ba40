"""How a program of an image runs without an engine of containers, as root: in a mount namespace of its own, where the image's
folder is the root, cannot be written but for its volumes, and has /dev, neither /proc nor /sys. The network is the machine's.

    image_root.py ROOT_FOLDER INSPECTED.json [PROGRAM] [ARGUMENT...]

becomes that process; without a program it is the entrypoint that gets the arguments. tools/image-test calls it."""

import json
import os
import pathlib
import sys


def read_config(inspected):
    """What `buildah inspect` says of how the image is run."""
    return json.loads(pathlib.Path(inspected).read_text())["Docker"]["config"]


def environment(config):
    return ["env", "-i", *config["Env"]]


def command(root, config, program, *, user=None, volumes=True, left_address=None):
    """The command line that runs `program` in the image as `user` (the image's). Volumes are empty and belong to whom they
    belong in the image, but for the address that an earlier server left."""
    script = f"mount --bind {root} {root}\nmount --rbind /dev {root}/dev\n"
    for volume in config["Volumes"] if volumes else ():
        folder = pathlib.Path(root, volume.lstrip("/"))
        owner = folder.stat()
        script += (f"mount -t tmpfs -o uid={owner.st_uid},gid={owner.st_gid},mode={owner.st_mode & 0o7777:o} "
                   f"volume {folder}\n")
    if left_address:
        script += f"echo {left_address} >{root}/run/quire/address\n"
    script += f'mount -o remount,bind,ro {root}\nexec chroot --userspec={user or config["User"]} {root} "$@"\n'
    return ["unshare", "--mount", "sh", "-ec", script, "sh", *environment(config), *program]


def main():
    root, inspected, *arguments = sys.argv[1:]
    config = read_config(inspected)
    if not arguments or arguments[0].startswith("-"):
        arguments = [*config["Entrypoint"], *arguments]
    line = command(root, config, arguments)
    os.execvp(line[0], line)


if __name__ == "__main__":
    main()
