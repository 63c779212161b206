"""Regenerates the stubs of this folder: ``python -m stoker_sidecar.agent.csi.pb.generate`` (needs the dev extra, grpcio-tools)."""

import argparse
from pathlib import Path

from grpc_tools import protoc

FOLDER = Path(__file__).parent
# protoc names the import path of a stub after its file's path below the source root.
SOURCE_ROOT = FOLDER.parents[3]
PROTOS = ("csi.proto", "registration.proto")


def generate(out: Path) -> None:
    """Write ``stoker_sidecar/agent/csi/pb/*_pb2.py`` and ``.pyi`` below `out`. Raises RuntimeError when protoc fails."""
    inside = FOLDER.relative_to(SOURCE_ROOT)
    well_known = Path(protoc.__file__).parent / "_proto"
    arguments = [f"-I{SOURCE_ROOT}", f"-I{well_known}", f"--python_out={out}", f"--pyi_out={out}"]
    if protoc.main(["protoc", *arguments, *(str(inside / name) for name in PROTOS)]) != 0:
        raise RuntimeError(f"protoc refused {', '.join(PROTOS)}: its message above says where")


def main() -> None:
    """Write the stubs beside the .proto files, or below ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SOURCE_ROOT, help="root below which the stubs are written")
    generate(parser.parse_args().out)


if __name__ == "__main__":
    main()
