"""The files that are generated from configs/cluster.yaml: Serve's config file, and the same inside the RayService.

python -m serve_apps.deploying.files     writes them; a test holds them to what it would write
"""

from io import StringIO
from pathlib import Path

from ruamel.yaml import YAML

from configs.deployment import load_deployment
from serve_apps.deploying.plan import serve_config

CONFIGS = Path(__file__).parents[2] / "configs"
CLUSTER = CONFIGS / "cluster.yaml"
SERVE = CONFIGS / "serve" / "cluster.yaml"
RAY_SERVICE = CONFIGS / "kubernetes" / "rayservice.yaml"
HEAD = "# Written by python -m serve_apps.deploying.files from configs/cluster.yaml. It is for: serve deploy FILE\n"
KEY = "  serveConfigV2: |\n"


def serve_file() -> str:
    """Serve's config file of the cluster's deployment, as text."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.representer.ignore_aliases = lambda _: True
    text = StringIO()
    yaml.dump(serve_config(load_deployment(CLUSTER)), text)
    return text.getvalue()


def with_serve_config(ray_service: str, serve: str) -> str:
    """The RayService's text with its serveConfigV2 replaced."""
    before, rest = ray_service.split(KEY)
    lines = rest.splitlines(keepends=True)
    after = next(index for index, line in enumerate(lines) if not line.startswith("    ") and line.strip())
    block = "".join(f"    {line}" if line.strip() else line for line in serve.splitlines(keepends=True))
    return before + KEY + block + "".join(lines[after:])


def written() -> dict[Path, str]:
    """Each generated file and its text."""
    serve = serve_file()
    return {
        SERVE: HEAD + serve,
        RAY_SERVICE: with_serve_config(RAY_SERVICE.read_text(encoding="utf-8"), serve),
    }


def main() -> None:
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
