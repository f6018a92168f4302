"""Several nodes' pages as one."""

from prometheus_client.parser import text_string_to_metric_families

from serve_apps.metrics import merged


def page(node: str, value: int) -> str:
    return (
        "# HELP ray_vllm_num_requests_running Running.\n# TYPE ray_vllm_num_requests_running gauge\n"
        f'ray_vllm_num_requests_running{{node="{node}"}} {value}\n'
        "# HELP ray_node_mem Memory.\n# TYPE ray_node_mem gauge\nray_node_mem 1.0\n"
        "# HELP ray_firstclause_tokens_total Tokens.\n# TYPE ray_firstclause_tokens_total counter\n"
        f'ray_firstclause_tokens_total{{node="{node}",kind="a b"}} {value}\n'
    )


def test_each_family_has_one_head_and_every_nodes_samples() -> None:
    families = {family.name: family for family in text_string_to_metric_families(merged([page("a", 1), page("b", 2)]))}
    assert set(families) == {"ray_vllm_num_requests_running", "ray_firstclause_tokens"}
    for family in families.values():
        assert [(sample.labels["node"], sample.value) for sample in family.samples] == [("a", 1), ("b", 2)]


def test_no_node_is_an_empty_page() -> None:
    assert merged([]) == "" == merged([""])
