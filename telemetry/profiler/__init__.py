"""The profiler: one replica's rates, measured, as every plan and the simulator take them.

It knows a target that completes token ids (`target`), over HTTP (`over_http`) or in this process (`engine`); what it
measures stands in `prefill`, `decode`, `load` and `bandwidth`, each a pure part beside the part that waits; `rounds`
runs them, and `document` puts the profile together.
"""
