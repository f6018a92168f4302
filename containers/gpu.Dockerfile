# GPU nodes and the head:   docker build -f containers/gpu.Dockerfile -t firstclause:0.1.0-gpu .
# The build server has no GPU and does not build it; the host brings the driver, by NVIDIA's container toolkit.
FROM python:3.11-slim-bookworm

# wget is what KubeRay's probes ask with; a C compiler is what Triton builds its launchers with
RUN apt-get update && apt-get install -y --no-install-recommends wget gcc libc6-dev && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home firstclause && mkdir /cache && chown 1000 /cache
WORKDIR /app
COPY requirements/gpu.lock requirements/gpu.lock
RUN pip install --no-cache-dir --no-deps -r requirements/gpu.lock
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e .
ENV FIRSTCLAUSE_CACHE=/cache PYTHONPATH=/app RAY_USAGE_STATS_ENABLED=0
USER 1000
CMD ["firstclause", "doctor"]
