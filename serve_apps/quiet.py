"""The environment of every process of the product: all models are local, so that nothing needs to call out."""

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "LOGURU_LEVEL": "INFO",  # pipecat's debug lines hold what callers say
}
"""Set before Ray is imported."""
