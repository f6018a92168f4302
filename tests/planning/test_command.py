"""`firstclause plan` as a user runs it: what is printed where, exit codes, files."""

import base64
import json
import re
import shutil
import subprocess
import sys

import pytest

from cli.main import main
from planning.topics import PLANS, TOPICS


@pytest.fixture
def firstclause(monkeypatch, capsys):
    """firstclause(*arguments): exit code, stdout, stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["firstclause", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return call


def test_without_a_topic_it_lists_them_with_their_questions(firstclause):
    code, out, _ = firstclause("plan")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(TOPICS)
    assert len(TOPICS) == 16
    assert all(line.endswith("?") for line in out.splitlines())
    assert set(json.loads(firstclause("plan", "--json")[1])["topics"]) == set(TOPICS)


@pytest.mark.parametrize("name", TOPICS)
def test_every_topic_answers_in_json_and_as_a_table(firstclause, name):
    code, out, err = firstclause("plan", name, "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["topic"] == name and set(document) == {"topic", "inputs", "outputs"}
    code, table, _ = firstclause("plan", name)
    assert code == 0
    for quantity in document["outputs"]:
        assert re.search(rf"^  {quantity}", table, re.MULTILINE), quantity
    assert table.rstrip().endswith(".")


# What other programs read.
NAMES = {
    "fleet": "prefill_replica_s_per_s decode_tokens_per_s_at_length decode_replica_s_per_s replicas binding "
    "concurrency usd_per_hour usd_per_million_tokens prompt_share_of_bill",
    "clocks": "wait_mean_s wait_p95_s client_ttft_mean_s client_ttft_p95_s client_over_engine_mean "
    "client_over_engine_p95",
    "headroom": "lag_s headroom_fraction target_utilization replicas burst_wait_s batch_replicas_needed",
    "adapters": "adapter_bytes slot_bytes waste_factor gpu_adapter_bytes kv_tokens_lost hit_gpu hit_cpu "
    "hit_disk expected_load_s replicas gpus_shared gpus_merged",
    "tiers": "idle_before cold_wait_s assignments gpus_before gpus_after idle_after",
    "price": "input_usd_per_million_tokens output_usd_per_million_tokens cached_usd_per_million_tokens "
    "break_even_hold_s blended_usd_per_request sensitivity most_sensitive",
    "long-context": "cold_prefill_s warm_prefill_s prefill_replicas decode_replicas kv_transfer_s",
    "voice": "total_ms over_ms largest_line batch_max duty calls_per_replica replicas",
    "ledger": "usd_per_good_request reasons verdicts misleading chosen",
    "spill": "saved_ms replicas_cold replicas_warm popular_requests_per_s home_replicas",
    "quotas": "compute_rt residency_s kv_fraction memory_fraction memory_rt resource_tokens dominant",
    "soak": "fleet idle_fraction idle_replica_hours harvestable_fraction batch_concurrency step_s decode_tokens_per_s "
    "requests_per_replica_s requests_per_day prefill_share limit",
    "regions": "replicas spare total cost_usd_per_hour wait_without_spare_s",
    "canary": "requests_errors requests_latency design_effect requests_per_arm stage_s",
    "capacity-units": "units fleet_units routing_weights utilization_by_count utilization_by_units "
    "max_requests_per_s_by_count max_requests_per_s_by_units buy buy_usd_per_hour",
    "offline": "passes gpu_hours usd bill after",
}


@pytest.mark.parametrize("name", TOPICS)
def test_the_outputs_have_their_names(firstclause, name):
    document = json.loads(firstclause("plan", name, "--json")[1])
    assert set(NAMES[name].split()) <= set(document["outputs"])


def test_set_reaches_inside_and_inputs_show_what_was_used(firstclause):
    arguments = ("plan", "fleet", "--json", "--set", "profile.prefill_tokens_per_s=1e4", "--set", "requests_per_s=10")
    document = json.loads(firstclause(*arguments)[1])
    assert document["inputs"]["profile"]["prefill_tokens_per_s"] == 1e4
    assert document["inputs"]["profile"]["model"].startswith("Llama")
    assert document["outputs"]["prefill_replica_s_per_s"] == 10 * 2048 / 1e4
    listed = json.loads(firstclause("plan", "tiers", "--json", "--set", "models.0.replicas=9")[1])
    assert listed["outputs"]["gpus_before"] == 47


def test_the_table_leaves_out_what_else_a_profile_holds(firstclause, tmp_path):
    text = (PLANS / "profiles/smollm2-135m-two-cores.yaml").read_text(encoding="utf-8")
    (tmp_path / "measured.yaml").write_text(f"{text}\nmeasured: {{repeats: 12345}}\n", encoding="utf-8")
    printed = firstclause("plan", "fleet", "--set", f"profile={tmp_path / 'measured.yaml'}")[1]
    assert "profile.kv_capacity_bytes" in printed
    assert "12345" not in printed
    assert "12,345" not in printed


def test_numbers_keep_full_precision(firstclause):
    document = json.loads(firstclause("plan", "spill", "--json")[1])
    assert document["outputs"]["saved_ms"] == 1536 / 66900 * 1000


BAD = [
    (["nonsense"], "nonsense", "no such topic"),
    (["fleet", "absent.yaml"], "absent.yaml", "No such file"),
    (["fleet", "--set", "requests_per_s=-1"], "requests_per_s = -1", "greater than 0"),
    (["fleet", "--set", "requests_per_s=.nan"], "requests_per_s = nan", "finite"),
    (["fleet", "--set", "requests_per_s=.inf"], "requests_per_s = inf", "finite"),
    (["fleet", "--set", "cached_prompt_fraction=1.5"], "cached_prompt_fraction = 1.5", "less than or equal to 1"),
    (["fleet", "--set", "request_rate=1"], "request_rate = 1", "unknown key"),
    (["fleet", "--set", "profile.prefill=1e4", "--set", "requests_per_s=x"], "requests_per_s = 'x'", "valid number"),
    (["fleet", "--set", "profile=absent.yaml"], "absent.yaml", "No such file"),
    (["fleet", "--set", "requests_per_s.x=1"], "requests_per_s.x = 1", "no mapping"),
    (["tiers", "--set", "models.99.replicas=1"], "models.99.replicas", "none of the 20"),
    (["tiers", "--set", "models=[]"], "models = []", "at least 1"),
    (["fleet", "--set", "requests_per_s"], "requests_per_s", "KEY=VALUE"),
    (["fleet", "--set", "requests_per_s=[1"], "requests_per_s = '[1'", "not a YAML value"),
    (["fleet", "--set", "requests_per_s=1e308", "--set", "prompt_tokens=1e308"], "fleet.yaml", "no finite answer"),
    (["clocks", "--set", "requests_per_s=200"], "requests_per_s = 200", "at or over capacity"),
    (["regions", "--set", "max_failover_rtt_ms=100"], "max_failover_rtt_ms = 100", "ap-south"),
    (["quotas", "--set", "prompt_tokens=1e6"], "prompt_tokens = 1000000", "of the KV memory"),
    (["soak", "--plot", "x.txt"], "x.txt", ".png"),
    (["soak", "--plot", "absent/x.png"], "absent/x.png", "No such file"),
    (["all"], "--out", ""),
    (["all", "--out", "absent/x.html"], "absent/x.html", "no such folder"),
    (["all", "--out", "x.html", "--set", "a=1"], "--set", ""),
    (["fleet", "--out", "x.html"], "--out", ""),
    (["fleet", "--unknown"], "--unknown", ""),
]


@pytest.mark.parametrize(("arguments", "named", "problem"), BAD, ids=[" ".join(case[0]) for case in BAD])
@pytest.mark.parametrize("json_too", [False, True])
def test_bad_input_is_exit_2_one_error_and_nothing_on_stdout(
    firstclause, tmp_path, monkeypatch, arguments, named, problem, json_too
):
    monkeypatch.chdir(tmp_path)
    code, out, err = firstclause("plan", *arguments, *["--json"] * json_too)
    assert (code, out) == (2, "")
    assert named in err and problem in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- 1\n- 2\n", "expected a mapping of keys to values, found list"),
        ("", "expected a mapping"),
        ("a: [1\n", "not valid YAML"),
        ("requests_per_s: 1\nrequests_per_s: 2\n", "requests_per_s"),
        ("requests_per_s: 1\n", "prompt_tokens: missing"),
        ("profile: [1]\n", "missing"),
    ],
)
def test_a_scenario_that_is_none_is_an_error(firstclause, tmp_path, text, problem):
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    code, out, err = firstclause("plan", "fleet", tmp_path / "s.yaml")
    assert (code, out) == (2, "")
    assert problem in err


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_plot_draws_a_picture_beside_the_answer(firstclause, tmp_path, kind):
    code, out, _ = firstclause("plan", "price", "--json", "--plot", tmp_path / f"p.{kind}")
    assert code == 0 and json.loads(out)["topic"] == "price"
    head = (tmp_path / f"p.{kind}").read_bytes()[:200]
    assert {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind] in head


def test_the_report_holds_every_plan_and_needs_nothing_else(firstclause, tmp_path):
    page = tmp_path / "report.html"
    code, out, _ = firstclause("plan", "all", "--out", page, "--json")
    text = page.read_text(encoding="utf-8")
    plans = json.loads(out)["plans"]
    assert code == 0 and [plan["topic"] for plan in plans] == list(TOPICS)
    for plan in plans:
        assert f'<section id="{plan["topic"]}">' in text
        for name in plan["outputs"]:
            assert f"<td>{name}" in text
    # The scenarios' comments and their profiles', which name the sources.
    assert "A list price for the fleet of fleet.yaml" in text and "TensorRT-LLM" in text
    images = re.findall(r'<img [^>]*src="data:image/png;base64,([^"]+)"', text)
    assert len(images) == 16 and all(base64.b64decode(image).startswith(b"\x89PNG") for image in images)
    assert text.count("The picture&#x27;s data") + text.count("The picture's data") == 16
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", text)
    assert "http" not in text and "@import" not in text and "<script" not in text


def test_help_loads_neither_ray_nor_torch_nor_scipy():
    code = (
        "import sys\nfrom cli.main import main\nsys.argv = ['firstclause', 'plan', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'ray', 'torch', 'scipy', 'numpy', 'matplotlib', 'vllm', 'pipecat'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--set KEY=VALUE" in done.stdout


@pytest.mark.browser
def test_the_report_renders_in_chromium_without_a_network(firstclause, tmp_path):
    from playwright.sync_api import sync_playwright

    page_file = tmp_path / "report.html"
    assert firstclause("plan", "all", "--out", page_file)[0] == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(offline=True)
        page = context.new_page()
        asked, wrong = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(page_file.as_uri())
        widths = page.eval_on_selector_all("img", "images => images.map(image => image.naturalWidth)")
        assert len(widths) == 16 and min(widths) > 500
        assert page.locator("section").count() == 16
        assert page.locator("#fleet .finding").inner_text().startswith("100 requests/s need 7 replicas")
        page.locator("#soak summary").first.click()
        assert page.locator("#soak details[open] tbody tr").count() == 24
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == [] and wrong == []
        browser.close()
