# Voice and gateway nodes, and the LLM on CPUs:   docker build -f containers/cpu.Dockerfile -t firstclause:0.1.0-cpu .
# The build server does not build it; what it installs is the lock file that the tests run with.
FROM python:3.11-slim-bookworm

# wget is what KubeRay's probes ask with
RUN apt-get update && apt-get install -y --no-install-recommends wget libnuma1 && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home firstclause && mkdir /cache && chown 1000 /cache
WORKDIR /app
COPY requirements/cpu.lock requirements/cpu.lock
# +cpu builds of torch are on PyTorch's own index where the configured one has none
RUN pip install --no-cache-dir --no-deps --extra-index-url https://download.pytorch.org/whl/cpu -r requirements/cpu.lock
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e .
ENV FIRSTCLAUSE_CACHE=/cache PYTHONPATH=/app RAY_USAGE_STATS_ENABLED=0
USER 1000
CMD ["firstclause", "doctor"]
